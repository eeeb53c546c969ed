// JSON Schemas of types as JSDoc and TypeScript write them: the part of both that JSON has.

const TOKEN = /\s*(?:(\/\*\*[^]*?\*\/)|\/\*[^]*?\*\/|\/\/[^\n]*|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(-?\d+(?:\.\d+)?)|([\w$]+)|(\.\.\.|=>|[^\s\w]))/gy;

const NAMED = {
  string: { type: 'string' },
  String: { type: 'string' },
  number: { type: 'number' },
  Number: { type: 'number' },
  integer: { type: 'integer' },
  int: { type: 'integer' },
  boolean: { type: 'boolean' },
  Boolean: { type: 'boolean' },
  bool: { type: 'boolean' },
  object: { type: 'object' },
  Object: { type: 'object' },
  null: { type: 'null' },
  true: { type: 'boolean', const: true },
  false: { type: 'boolean', const: false },
  any: {},
  unknown: {},
};

export const ALLOWED =
  "string, number, integer, boolean, null, 'a' | 'b', T[], { name: T, other?: T }, Record<string, T>, object and any";

/** A type that JSON has not. */
export class TypeProblem extends Error {}

/**
 * Reads a type.
 *
 * @param text the type alone; at a depth of more than 0 what follows its declaration, too
 * @param declared finds the text of a type that the module declares, by its name
 * @returns the schema, and whether a value may be absent
 */
export function readType(text, declared = () => undefined, depth = 0) {
  if (depth > 16) throw new TypeProblem('is declared by itself');
  const reader = new Reader(text, declared, depth);
  const { schema, isOptional } = reader.union();
  reader.expectEnd();
  return { schema, isOptional };
}

class Reader {
  constructor(text, declared, depth) {
    Object.assign(this, { text, declared, depth, position: 0, next: undefined, comment: undefined });
    this.advance();
  }

  /** Moves to the next token; a comment before it is kept for the property it describes. */
  advance() {
    const token = this.next;
    this.comment = undefined;
    this.position = TOKEN.lastIndex = this.ahead ?? 0;
    for (;;) {
      const match = TOKEN.exec(this.text);
      this.ahead = match ? TOKEN.lastIndex : this.text.length;
      if (!match) {
        this.next = undefined;
        return token;
      }
      const [, comment, quoted, number, word, mark] = match;
      if (comment) this.comment = comment;
      const [kind, value] = quoted ? ['string', unquoted(quoted)] : number ? ['number', Number(number)] : word ? ['word', word] : ['mark', mark];
      if (value === undefined) continue;
      this.next = { kind, value };
      return token;
    }
  }

  is(mark) {
    return this.next?.kind === 'mark' && this.next.value === mark;
  }

  takes(mark) {
    if (!this.is(mark)) return false;
    this.advance();
    return true;
  }

  expect(mark) {
    if (!this.takes(mark)) throw new TypeProblem(`has no \`${mark}\` where one belongs`);
  }

  /** What is not read would be lost: a type ends with its text, or in a module with its line. */
  expectEnd() {
    if (this.next === undefined) return;
    const isNextLine = /\n/.test(this.text.slice(this.position, this.ahead)) && this.next.value !== 'extends';
    if (this.depth > 0 && (isNextLine || this.is(';'))) return;
    const [rest] = this.text.slice(this.position).trim().split('\n');
    const repair = this.is(',') ? '; write several types as `A | B`' : '';
    throw new TypeProblem(`goes on with \`${rest.length > 40 ? `${rest.slice(0, 37)}...` : rest}\`, which is not understood${repair}`);
  }

  union() {
    this.takes('|');
    const parts = [];
    let isOptional = false;
    do {
      const isNullable = this.takes('?');
      this.takes('!');
      const part = this.intersection();
      if (part === undefined) isOptional = true;
      else parts.push(part);
      if (isNullable) parts.push(NAMED.null);
    } while (this.takes('|'));
    if (this.takes('=')) isOptional = true;
    return { schema: joined(parts), isOptional };
  }

  /** `Base & { more: T }`: an object with the properties of all. */
  intersection() {
    this.takes('&');
    const parts = [this.postfix()];
    while (this.takes('&')) parts.push(this.postfix());
    return parts.length === 1 ? parts[0] : merged(parts);
  }

  postfix() {
    let schema = this.primary();
    while (this.is('[')) {
      this.advance();
      this.expect(']');
      schema = { type: 'array', items: schema };
    }
    return schema;
  }

  primary() {
    const token = this.advance();
    if (token === undefined) throw new TypeProblem('is empty');
    if (token.kind === 'string') return { type: 'string', const: token.value };
    if (token.kind === 'number') return { type: 'number', const: token.value };
    if (token.value === '(') {
      const { schema } = this.union();
      this.expect(')');
      return schema;
    }
    if (token.value === '{') return this.object();
    if (token.value === '[') return this.tuple();
    if (token.value === '*') return {};
    if (token.kind === 'word') return this.named(token.value);
    throw new TypeProblem(`has a \`${token.value}\` that is no type of JSON`);
  }

  named(name) {
    if (name === 'readonly') return this.postfix();
    if (name === 'undefined' || name === 'void') return undefined;
    // JSDoc also writes `Array.<string>`.
    if (this.takes('.') && !this.is('<')) throw new TypeProblem(`has no JSON Schema (\`${name}.${this.next?.value ?? ''}\`)`);
    const parts = [];
    if (this.takes('<')) {
      do parts.push(this.union().schema);
      while (this.takes(','));
      this.expect('>');
    }
    if (['Array', 'ReadonlyArray'].includes(name) && parts.length < 2) return { type: 'array', items: parts[0] ?? {} };
    if (['Record', 'Object', 'object'].includes(name) && parts.length === 2) {
      return record(parts[0], parts[1]);
    }
    if (Object.hasOwn(NAMED, name) && parts.length === 0) return { ...NAMED[name] };
    const text = this.declared(name);
    if (text !== undefined) return readType(text, this.declared, this.depth + 1).schema;
    throw new TypeProblem(`has no JSON Schema (\`${name}\`)`);
  }

  object() {
    const schema = { type: 'object', properties: {}, required: [], additionalProperties: false };
    while (!this.is('}')) {
      let { comment } = this;
      let name = this.advance();
      if (name?.value === 'readonly' && this.next?.kind === 'word') {
        comment ??= this.comment;
        name = this.advance();
      }
      if (name === undefined || name.kind === 'mark') throw new TypeProblem('has an object that cannot be read');
      const isAbsent = this.takes('?');
      this.expect(':');
      const { schema: property, isOptional } = this.union();
      const description = comment && commentText(comment);
      schema.properties[name.value] = description ? { ...property, description } : property;
      if (!isAbsent && !isOptional) schema.required.push(String(name.value));
      // Lines end a property, too.
      while (this.takes(',') || this.takes(';'));
    }
    this.advance();
    if (schema.required.length === 0) delete schema.required;
    return schema;
  }

  tuple() {
    const prefixItems = [];
    while (!this.is(']')) {
      prefixItems.push(this.union().schema);
      if (!this.takes(',')) break;
    }
    this.expect(']');
    return { type: 'array', prefixItems, minItems: prefixItems.length, maxItems: prefixItems.length };
  }
}

/** `Record<K, T>`: any texts, numbers as texts, or exactly the names that K lists. */
function record(keys, value) {
  const names = keys?.enum ?? ('const' in (keys ?? {}) ? [keys.const] : undefined);
  if (names !== undefined) {
    const properties = Object.fromEntries(names.map((name) => [name, value]));
    return { type: 'object', properties, required: names.map(String), additionalProperties: false };
  }
  if (keys?.type === 'string') return { type: 'object', additionalProperties: value };
  if (['number', 'integer'].includes(keys?.type)) {
    return { type: 'object', propertyNames: { pattern: '^-?[0-9.]+$' }, additionalProperties: value };
  }
  throw new TypeProblem("has a `Record` whose keys are neither string, number nor 'a' | 'b'");
}

/** One schema for objects that are joined by `&`. */
function merged(parts) {
  const all = { type: 'object', properties: {}, required: [], additionalProperties: false };
  for (const part of parts) {
    if (part?.properties === undefined || part.additionalProperties !== false) {
      throw new TypeProblem('joins with `&` what is no object with named properties; write one `{ name: T, other: T }`');
    }
    for (const [name, property] of Object.entries(part.properties)) {
      const known = all.properties[name];
      if (known !== undefined && JSON.stringify(known) !== JSON.stringify(property)) {
        throw new TypeProblem(`has two types for \`${name}\`, joined with \`&\`; write one \`{ name: T, other: T }\``);
      }
      all.properties[name] = property;
    }
    all.required.push(...(part.required ?? []).filter((name) => !all.required.includes(name)));
  }
  if (all.required.length === 0) delete all.required;
  return all;
}

/** One schema for the parts of a union. */
function joined(parts) {
  if (parts.length === 1) return parts[0];
  if (parts.length === 0) throw new TypeProblem('has no value in JSON');
  const types = [...new Set(parts.map((part) => part.type))];
  if (parts.every((part) => 'const' in part)) {
    return { type: types.length === 1 ? types[0] : types, enum: parts.map((part) => part.const) };
  }
  const values = parts.filter((part) => part.type !== 'null');
  const isPlain = (part) => part.type !== undefined && Object.keys(part).length === 1;
  if (parts.every(isPlain)) return { type: types };
  if (values.length < parts.length && values.every((part) => 'const' in part)) {
    return { enum: [...values.map((part) => part.const), null] };
  }
  return { anyOf: parts };
}

/** The text of a documentation comment, without its stars. */
export function commentText(comment) {
  const lines = comment.slice(3, -2).split('\n').map((line) => line.replace(/^\s*\* ?/, ''));
  return lines.join('\n').trim();
}

function unquoted(text) {
  return text.slice(1, -1).replace(/\\(.)/g, '$1');
}
