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
 * Reads a type from the beginning of `text`.
 *
 * @param declared finds the text of a type that the module declares, by its name
 * @returns the schema, whether a value may be absent, and the length of what was read
 */
export function readType(text, declared = () => undefined, depth = 0) {
  if (depth > 16) throw new TypeProblem('is declared by itself');
  const reader = new Reader(text, declared, depth);
  const { schema, isOptional } = reader.union();
  return { schema, isOptional, length: reader.position };
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

  union() {
    this.takes('|');
    const parts = [];
    let isOptional = false;
    do {
      const isNullable = this.takes('?');
      this.takes('!');
      const part = this.postfix();
      if (part === undefined) isOptional = true;
      else parts.push(part);
      if (isNullable) parts.push(NAMED.null);
    } while (this.takes('|'));
    if (this.takes('=')) isOptional = true;
    return { schema: joined(parts), isOptional };
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
    if (this.is('.')) this.advance();
    const parts = [];
    if (this.takes('<')) {
      do parts.push(this.union().schema);
      while (this.takes(','));
      this.expect('>');
    }
    if (['Array', 'ReadonlyArray'].includes(name)) return { type: 'array', items: parts[0] ?? {} };
    if (['Record', 'Object', 'object'].includes(name) && parts.length === 2) {
      return { type: 'object', additionalProperties: parts[1] };
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
