// What the source of a function says about it: its description and the types of its parameters,
// from the documentation comment before it and, in TypeScript, from its signature.

import { problemOf } from './check.js';
import { DefinitionError } from './errors.js';
import { ALLOWED, TypeProblem, commentText, readType } from './types.js';

const DOCUMENTED =
  /(\/\*\*(?!\/)(?:[^*]|\*(?!\/))*\*\/)\s*(?:export\s+)?(?:default\s+)?(?:(?:async\s+)?function\s*\*?\s*([\w$]+)\s*|(?:const|let)\s+([\w$]+)\s*=\s*(?:async\s*)?(?:function\b\s*)?)\(/g;

/**
 * Returns what a module says about its documented functions, by name.
 *
 * Each is plain data: `{ where, description, parameters }`, with `problem` in place of
 * `parameters` if there can be none.
 */
export function documentationOf(path, text) {
  const found = {};
  for (const match of text.matchAll(DOCUMENTED)) {
    const name = match[2] ?? match[3];
    const start = match.index + match[0].length;
    const where = `${path}:${lineAt(text, start)}`;
    const { description, params } = readComment(match[1]);
    try {
      const signature = readSignature(text, start);
      const parameters = joinedParameters(signature, params, (type) => declared(text, type));
      found[name] = { where, description, parameters };
    } catch (error) {
      if (!(error instanceof DefinitionError)) throw error;
      found[name] = { where, description, problem: error.message };
    }
  }
  return found;
}

/** The JSON Schema of a function's arguments, as its source documents it. */
export function parametersOf(tool, work, documentation) {
  if (documentation?.parameters) return documentation.parameters;
  // A function that takes nothing needs no words for it.
  if (!documentation && /^(?:async\s+)?(?:function\b\s*[\w$]*\s*)?\(\s*\)/.test(work.toString())) {
    return { type: 'object', properties: {}, additionalProperties: false };
  }
  const error = new DefinitionError(
    `${tool}: ${documentation?.problem ?? `no parameters; give a JSON Schema or a zod schema as \`parameters\`, or document the function \`${work.name}\` with /** ... @param {string} text ... */`}`,
  );
  error.where = documentation?.where;
  throw error;
}

function lineAt(text, index) {
  let line = 1;
  for (let at = text.indexOf('\n'); at >= 0 && at < index; at = text.indexOf('\n', at + 1)) line++;
  return line;
}

/** Splits a comment into its description and its `@param`s. */
function readComment(comment) {
  const [description, ...tags] = commentText(comment).split(/^\s*@(?=\w)/m);
  const params = [];
  for (const tag of tags) {
    const match = /^(?:param|arg|argument)\s+/.exec(tag);
    if (match) params.push(readParam(tag.slice(match[0].length)));
  }
  return { description: description.trim(), params };
}

/** Reads `{type} [name=default] - description`. */
function readParam(text) {
  let type;
  if (text.startsWith('{')) {
    const end = closing(text, 0);
    type = text.slice(1, end);
    text = text.slice(end + 1).trimStart();
  }
  let [, name] = /^((?:[^\s[\]]|\[\])+)/.exec(text) ?? [];
  let isOptional = false;
  let given;
  if (text.startsWith('[')) {
    const end = closing(text, 0);
    [, name, given] = /^\s*([^=\s]+)\s*(?:=\s*([^]*?)\s*)?$/.exec(text.slice(1, end)) ?? [];
    isOptional = true;
    text = text.slice(end + 1);
  } else {
    text = text.slice(name?.length ?? 0);
  }
  const description = text.replace(/^\s*-?\s*/, '').replace(/\s*\n\s*/g, ' ').trim();
  return { name: name ?? '', type, isOptional, given, description };
}

/** Reads the list of parameters of a function, from behind its `(`. */
function readSignature(text, start) {
  const end = closing(text, start - 1);
  const [first = '', ...others] = parts(text.slice(start, end));
  const names = others.map((one) => /^\.{0,3}([\w$]*)/.exec(one)[1]);
  if (first === '') return { names, fields: [] };
  if (first.startsWith('{')) {
    const close = closing(first, 0);
    return { names, fields: parts(first.slice(1, close)).map(readField), type: typeOf(first.slice(close + 1)) };
  }
  const [, name] = /^([\w$]+)\??/.exec(first) ?? [];
  if (name === undefined) throw new DefinitionError(`takes \`${first}\`; a tool takes one object, as in ({ text, top = 3 })`);
  return { names, name, type: typeOf(first.slice(name.length).replace(/^\?/, '')) };
}

/** Reads `text`, `top = 3`, `top: count = 3` or `...rest` of a destructured parameter. */
function readField(text) {
  const [, rest, name, given] = /^(\.\.\.)?([\w$]+|"[^"]*"|'[^']*')\s*(?::\s*[\w$]+\s*)?(?:=\s*([^]*))?$/.exec(text) ?? [];
  if (name === undefined) throw new DefinitionError(`takes \`${text}\`, which cannot be read; name its properties one by one`);
  return { name: name.replace(/^["']|["']$/g, ''), isRest: rest !== undefined, isOptional: given !== undefined, given };
}

/** The type behind `:`, without the default behind `=`. */
function typeOf(text) {
  const [, type] = /^\s*:\s*([^]+)$/.exec(text) ?? [];
  return type && parts(type, '=')[0];
}

/** One schema from a signature and a comment: the comment's words, and types where it gives them. */
function joinedParameters(signature, params, declaration) {
  const documented = own(signature, params);
  checkDescribed(signature, documented);
  const typed = signature.type && schemaOfType('arguments', signature.type, declaration);
  if (typed && typed.type !== 'object') throw new DefinitionError(`takes \`${signature.type.trim()}\`; a tool takes one object`);
  const schema = {
    type: 'object',
    properties: { ...typed?.properties },
    required: [...(typed?.required ?? [])],
    additionalProperties: typed?.additionalProperties ?? false,
    ...(typed?.propertyNames && { propertyNames: typed.propertyNames }),
  };
  if (typed && signature.name && documented.length === 0) checkNamed(signature.name, signature.type, typed);
  const isAbsent = (name) => {
    schema.required = schema.required.filter((one) => one !== name);
  };
  // What something is comes before what is in it.
  const depth = ({ name }) => name.split(/\.|\[\]/).filter((step) => step !== '').length + (name.endsWith('[]') ? 1 : 0);
  for (const param of [...documented].sort((left, right) => depth(left) - depth(right))) add(schema, param, declaration);
  const fields = signature.fields ?? [];
  for (const field of fields) {
    if (field.isRest) continue;
    const property = schema.properties[field.name];
    if (!property) throw new DefinitionError(`parameter \`${field.name}\` is not documented; add \`@param {string} ${field.name} ...\``);
    if (field.isOptional) isAbsent(field.name);
    if (field.given !== undefined && !('default' in property)) {
      const value = literal(field.given);
      if (value !== undefined && value !== null) property.default = fitting(field, property, value);
    }
  }
  if (signature.fields && !fields.some((field) => field.isRest)) {
    for (const name of Object.keys(schema.properties)) {
      if (fields.some((field) => field.name === name)) continue;
      throw new DefinitionError(`documents \`${name}\`, which the function does not take; it takes ${fields.map((field) => field.name).join(', ') || 'nothing'}`);
    }
  }
  if (schema.required.length === 0) delete schema.required;
  return schema;
}

/** Nothing is said twice. A parameter of which nothing is said would be an object that allows nothing. */
function checkDescribed(signature, documented) {
  const { name, type } = signature;
  const twice = documented.find((param, index) => documented.findIndex((one) => one.name === param.name) < index);
  if (twice) throw new DefinitionError(`documents \`${twice.name}\` twice; keep one \`@param\``);
  // What begins with `_` is not used.
  if (name === undefined || name.startsWith('_') || type !== undefined || documented.length > 0) return;
  throw new DefinitionError(
    `takes \`${name}\`, and nothing says what is in it; add \`@param {string} ${name}.text ...\` for each of its properties, or write \`_${name}\` if it is not used`,
  );
}

/** So would one that is just `object`. */
function checkNamed(name, type, schema) {
  if (name.startsWith('_') || schema.properties !== undefined || schema.additionalProperties !== undefined) return;
  throw new DefinitionError(
    `parameter \`${name}: ${type.trim()}\` does not say what is in it; write \`{ text: string }\`, or \`Record<string, any>\` if it takes everything`,
  );
}

/** The documented parameters that are properties of the first one: `text`, or `arguments.text`. */
function own(signature, params) {
  const isField = (name) => signature.fields?.some((field) => field.name === name);
  const rootOf = (param) => param.name.split(/[.[]/)[0];
  const dotted = params.map((param) => param.name.includes('.') && rootOf(param)).find((root) => root && !isField(root));
  const owner = dotted !== undefined && (signature.fields || dotted === signature.name) ? dotted : undefined;
  const isOther = (param) => signature.names.includes(rootOf(param)) && !isField(rootOf(param));
  return params
    .filter((param) => !isOther(param) && param.name !== owner)
    .flatMap((param) => {
      if (owner !== undefined && param.name.startsWith(`${owner}.`)) return [{ ...param, name: param.name.slice(owner.length + 1) }];
      // `@param {{ text: string }} arguments` describes them all at once.
      if (param.name === signature.name && param.type === undefined) return [];
      return [{ ...param, isWhole: param.name === signature.name }];
    });
}

function add(schema, param, declaration) {
  if (param.isWhole) {
    const whole = schemaOfType(param.name, param.type, declaration);
    if (whole.type !== 'object') throw new DefinitionError(`parameter \`${param.name}: ${param.type}\` must be an object`);
    checkNamed(param.name, param.type, whole);
    schema.additionalProperties = whole.additionalProperties ?? false;
    if (whole.propertyNames) schema.propertyNames = whole.propertyNames;
    Object.assign(schema.properties, whole.properties);
    schema.required.push(...(whole.required ?? []));
    return;
  }
  const [step, ...deeper] = param.name.split('.');
  const name = step.replace(/(\[\])+$/, '');
  if (deeper.length > 0 || step !== name) {
    addWithin(schema, { ...param, name, step, deeper: deeper.join('.') }, declaration);
    return;
  }
  const known = schema.properties[name];
  if (!known && param.type === undefined) {
    throw new DefinitionError(`parameter \`${name}\` has no type; write \`@param {string} ${name} ...\``);
  }
  const read = param.type === undefined ? { schema: known } : schemaAndOption(name, param.type, declaration);
  const given = param.given === undefined ? undefined : defaultOf(param, read.schema);
  const description = param.description || known?.description;
  schema.properties[name] = {
    ...read.schema,
    ...(description && { description }),
    ...(given !== undefined && { default: given }),
  };
  const isOptional = param.isOptional || read.isOptional;
  schema.required = (schema.required ?? []).filter((one) => one !== name || !isOptional);
  if (!isOptional && !schema.required.includes(name) && !known) schema.required.push(name);
}

/** Adds `items[].name`, `items[]` or `place.city`: what an array or an object that is known has in it. */
function addWithin(schema, { step, deeper, ...param }, declaration) {
  const counted = step.slice(param.name.length).length / 2;
  let inner = (schema.properties[param.name] ??= counted > 0 ? { type: 'array' } : { type: 'object' });
  for (let level = 0; level < counted; level++) {
    inner = part(inner, 'array', param);
    if (level + 1 === counted && deeper === '') {
      const { schema: items } = param.type === undefined ? { schema: inner.items } : schemaAndOption(step, param.type, declaration);
      inner.items = { ...items, ...(param.description && { description: param.description }) };
      return;
    }
    inner = inner.items ??= {};
  }
  inner = part(inner, 'object', param);
  inner.properties ??= {};
  inner.required ??= [];
  inner.additionalProperties = false;
  add(inner, { ...param, name: deeper }, declaration);
  if (inner.required.length === 0) delete inner.required;
}

/** The part of a schema that is an array or an object. */
function part(schema, kind, { name }) {
  if (schema.type === undefined && schema.anyOf === undefined) schema.type = kind;
  const found = [schema, ...(schema.anyOf ?? [])].find(({ type }) => type === kind || (Array.isArray(type) && type.includes(kind)));
  if (found) return found;
  const type = kind === 'array' ? 'object[]' : 'object';
  throw new DefinitionError(`documents what is in \`${name}\`, which is no ${kind}; write \`@param {${type}} ${name} ...\``);
}

/**
 * The default that a comment gives, as a value of the type; undefined if it is none that a model could
 * be told, such as the name of a constant.
 */
function defaultOf(param, schema) {
  const text = param.given;
  const value = literal(text);
  if (value !== undefined && problemOf(schema, value) === undefined) return value;
  const isText = typeof value !== 'string' && !['null', 'undefined'].includes(text) && Object.keys(schema).length > 0;
  // A text may stand there without quotes.
  if (isText && problemOf(schema, text) === undefined) return text;
  if (value === undefined || value === null) return undefined;
  return fitting(param, schema, value);
}

/** A default, if it is of the type. */
function fitting({ name, given }, schema, value) {
  const problem = problemOf(schema, value);
  if (problem === undefined) return value;
  throw new DefinitionError(`parameter \`${name}\` has the default \`${given}\`: ${problem.message.replace(/^\/: /, '')}; write a value of its type`);
}

function schemaOfType(name, type, declaration) {
  return schemaAndOption(name, type, declaration).schema;
}

function schemaAndOption(name, type, declaration) {
  try {
    return readType(type, declaration);
  } catch (error) {
    if (!(error instanceof TypeProblem)) throw error;
    throw new DefinitionError(`parameter \`${name}: ${type.trim()}\` ${error.message}; allowed are ${ALLOWED}`);
  }
}

/** The text of a type that a module declares: `interface Name {...}` or `type Name = ...`. */
function declared(text, name) {
  if (!/^[\w$]+$/.test(name)) return undefined;
  const escaped = name.replaceAll('$', '\\$');
  const match = new RegExp(`\\b(?:(interface)\\s+${escaped}(?![\\w$])\\s*(extends\\b)?|type\\s+${escaped}\\s*=)`).exec(text);
  if (!match) return undefined;
  const start = match.index + match[0].length;
  if (match[2]) throw new TypeProblem(`is declared with \`extends\`, which is not understood (\`${name}\`); write \`type ${name} = Base & { ... }\``);
  if (!match[1]) return text.slice(start);
  return text[start] === '{' ? text.slice(start, closing(text, start) + 1) : undefined;
}

/** The value of a literal, or undefined if the text is none. */
function literal(text) {
  const trimmed = text.trim();
  if (/^[-+]?(\d|\.\d)/.test(trimmed)) {
    const number = Number(trimmed.replaceAll('_', ''));
    return Number.isFinite(number) ? number : undefined;
  }
  try {
    return JSON.parse(trimmed.replace(/^'([^'"\\]*)'$/, '"$1"'));
  } catch {
    return undefined;
  }
}

const OPEN = { '(': ')', '[': ']', '{': '}' };

/** Where the bracket at `start` is closed; strings and comments are passed over. */
function closing(text, start) {
  const stack = [];
  const marks = /["'`]|\/\/[^\n]*|\/\*[^]*?\*\/|[()[\]{}]/g;
  marks.lastIndex = start;
  for (let match = marks.exec(text); match; match = marks.exec(text)) {
    const [mark] = match;
    if (`"'\``.includes(mark)) {
      marks.lastIndex = endOfString(text, match.index);
    } else if (OPEN[mark]) {
      stack.push(OPEN[mark]);
    } else if (mark.length === 1) {
      if (stack.pop() !== mark) break;
      if (stack.length === 0) return match.index;
    }
  }
  throw new DefinitionError('has a signature or a comment whose brackets do not match');
}

function endOfString(text, start) {
  const quote = text[start];
  let at = start + 1;
  while (at < text.length && text[at] !== quote) at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

/** Splits a list at its outermost commas, or other marks; comments are left out. */
function parts(text, separator = ',') {
  const found = [''];
  // `Record<string, number>` is one part.
  let angles = 0;
  for (let at = 0; at < text.length; ) {
    const mark = text[at];
    let end = at + 1;
    if (mark === '<' && /[\w$.]/.test(text[at - 1])) angles++;
    else if (mark === '>' && angles > 0 && text[at - 1] !== '=') angles--;
    if (mark === separator && angles === 0) {
      found.push('');
      at = end;
      continue;
    }
    if (text.startsWith('//', at) || text.startsWith('/*', at)) {
      const close = text[at + 1] === '/' ? text.indexOf('\n', at) : text.indexOf('*/', at) + 2;
      at = close < at + 2 ? text.length : close;
      continue;
    }
    if (OPEN[mark]) end = closing(text, at) + 1;
    else if (`"'\``.includes(mark)) end = endOfString(text, at);
    found[found.length - 1] += text.slice(at, end);
    at = end;
  }
  return found.map((part) => part.trim()).filter((part, index, all) => part !== '' || index < all.length - 1);
}
