// JSON Schemas of arguments and output: given as such, or by a schema library such as zod.

import { DefinitionError } from './errors.js';
import { written } from './writing.js';

const TARGET = { target: 'draft-2020-12' };
// Where these stand, closing an object would change what the parts together allow.
const COMBINATORS = ['allOf', 'anyOf', 'oneOf', 'not', 'if', '$ref', 'patternProperties'];

/** Tells a schema of zod, or of another library that follows Standard Schema. */
export function isStandard(given) {
  return given?.['~standard'] !== undefined;
}

/** Returns the JSON Schema of what was given, closed: a misspelt property is an error. */
export function schemaOf(given, what) {
  const schema = isStandard(given) ? standardSchema(given, what) : plainSchema(given, what);
  for (const noise of ['$schema', 'title', 'description']) delete schema[noise];
  return closed(schema);
}

function standardSchema(given, what) {
  const { jsonSchema } = given['~standard'];
  if (typeof jsonSchema?.input !== 'function') {
    throw new DefinitionError(`${what}: this schema has no JSON Schema; use zod 4.2 or later, or write the JSON Schema itself`);
  }
  let schema;
  try {
    schema = jsonSchema.input(TARGET);
  } catch (error) {
    throw new DefinitionError(`${what}: ${error.message}; use a type that JSON has`);
  }
  if (schema.type === 'object') return structuredClone(schema);
  throw new DefinitionError(`${what} must describe an object, as in z.object({ ... })`);
}

function plainSchema(given, what) {
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  if (isObject && given.type === 'object') return JSON.parse(definedText(given, what));
  throw new DefinitionError(
    `${what} must be a JSON Schema of an object, { type: 'object', properties: { ... } }, or a zod schema`,
  );
}

/** Returns the JSON text of a part of a definition. */
export function definedText(value, what) {
  try {
    return written(value, what);
  } catch (error) {
    throw new DefinitionError(error.message);
  }
}

function closed(schema) {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return schema;
  // zod bounds every integer by what a number holds exactly, which says nothing to a model.
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  const isOpen = COMBINATORS.some((word) => word in schema);
  if (schema.type === 'object' && !('additionalProperties' in schema) && !isOpen) {
    schema.properties ??= {};
    schema.additionalProperties = false;
  }
  for (const property of Object.values(schema.properties ?? {})) closed(property);
  for (const word of ['items', 'additionalProperties']) closed(schema[word]);
  return schema;
}

/** Fills in the defaults of top-level properties that are absent. */
export function withDefaults(schema, given) {
  const filled = { ...given };
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (filled[name] === undefined && property?.default !== undefined) {
      filled[name] = structuredClone(property.default);
    }
  }
  return filled;
}

/** Returns a JSON Pointer to a path of keys. */
export function pointer(path) {
  const escaped = (key) => String(key).replaceAll('~', '~0').replaceAll('/', '~1');
  return path.map((key) => `/${escaped(key)}`).join('');
}
