// Checks a value against the part of JSON Schema that tools use. In a host this is the host's;
// here it is for tests on the author's machine, so that they refuse what a host would refuse.

import { pointer } from './schema.js';

const IS = {
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  array: Array.isArray,
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: Number.isInteger,
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
};

// Each says what is wrong with a value of the right type, or nothing.
const RULES = {
  enum: (value, allowed) => !allowed.some((one) => same(one, value)) && `is not one of ${JSON.stringify(allowed)}`,
  const: (value, wanted) => !same(wanted, value) && `is not ${JSON.stringify(wanted)}`,
  minimum: (value, least) => IS.number(value) && value < least && `is less than ${least}`,
  maximum: (value, most) => IS.number(value) && value > most && `is greater than ${most}`,
  exclusiveMinimum: (value, bound) => IS.number(value) && value <= bound && `is not greater than ${bound}`,
  exclusiveMaximum: (value, bound) => IS.number(value) && value >= bound && `is not less than ${bound}`,
  minLength: (value, least) => IS.string(value) && [...value].length < least && `is shorter than ${least}`,
  maxLength: (value, most) => IS.string(value) && [...value].length > most && `is longer than ${most}`,
  pattern: (value, form) => IS.string(value) && !new RegExp(form, 'u').test(value) && `does not match ${form}`,
  minItems: (value, least) => IS.array(value) && value.length < least && `has fewer than ${least} items`,
  maxItems: (value, most) => IS.array(value) && value.length > most && `has more than ${most} items`,
};

/** Returns `{ path, message }` of the first thing that is wrong, or undefined. */
export function problemOf(schema, value, path = []) {
  if (schema === true || typeof schema !== 'object' || schema === null) return undefined;
  const wrong = (message, at = path) => ({ path: pointer(at), message: `${pointer(at) || '/'}: ${message}` });
  const types = [schema.type ?? []].flat();
  if (types.length > 0 && !types.some((type) => IS[type]?.(value))) {
    return wrong(`${shown(value)} is not of type ${types.join(' or ')}`);
  }
  for (const [word, rule] of Object.entries(RULES)) {
    const problem = word in schema && rule(value, schema[word]);
    if (problem) return wrong(`${shown(value)} ${problem}`);
  }
  const any = schema.anyOf ?? schema.oneOf;
  if (any && any.every((one) => problemOf(one, value, path))) {
    return wrong(`${shown(value)} matches none of the allowed forms`);
  }
  for (const part of schema.allOf ?? []) {
    const problem = problemOf(part, value, path);
    if (problem) return problem;
  }
  if (IS.object(value)) return objectProblem(schema, value, path, wrong);
  if (!IS.array(value)) return undefined;
  for (const [index, item] of value.entries()) {
    const problem = problemOf(schema.prefixItems?.[index] ?? schema.items, item, [...path, index]);
    if (problem) return problem;
  }
  return undefined;
}

function objectProblem(schema, value, path, wrong) {
  for (const name of schema.required ?? []) {
    if (value[name] === undefined) return wrong(`"${name}" is a required property`);
  }
  for (const [name, property] of Object.entries(value)) {
    const known = Object.hasOwn(schema.properties ?? {}, name);
    if (!known && schema.additionalProperties === false) {
      return wrong(`additional property "${name}" is not allowed`);
    }
    const rule = known ? schema.properties[name] : schema.additionalProperties;
    const problem = problemOf(rule, property, [...path, name]);
    if (problem) return problem;
  }
  return undefined;
}

function same(left, right) {
  return JSON.stringify(left) === JSON.stringify(right);
}

function shown(value) {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
