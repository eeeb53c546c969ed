// What the source of a function says about it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { documentationOf } from '../src/jsdoc.js';

const said = (text) => Object.values(documentationOf('words.js', text))[0];
const schema = (text) => said(text).parameters;
const problem = (text) => said(text).problem;

test('description and place', () => {
  const found = said('\n/**\n * Counts.\n *\n * All of them.\n * @returns {number}\n */\nexport async function count() {}\n');
  assert.deepEqual(found, { where: 'words.js:8', description: 'Counts.\n\nAll of them.', parameters: { type: 'object', properties: {}, additionalProperties: false } });
});

test('every way to write a function', () => {
  for (const start of ['function f', 'export default function f', 'async function f', 'function* f', 'const f = ', 'export const f = async ', 'let f = function ']) {
    assert.deepEqual(schema(`/** F.\n * @param {string} a A.\n */\n${start}({ a }) {}`)?.required, ['a'], start);
  }
});

test('types of comments', () => {
  const of = (type) => {
    const { properties, required } = schema(`/** F.\n * @param {${type}} a\n */\nfunction f({ a }) {}`);
    return [properties.a, required === undefined];
  };
  assert.deepEqual(of('integer'), [{ type: 'integer' }, false]);
  assert.deepEqual(of('string='), [{ type: 'string' }, true]);
  assert.deepEqual(of('?number'), [{ type: ['number', 'null'] }, false]);
  assert.deepEqual(of('string | undefined'), [{ type: 'string' }, true]);
  assert.deepEqual(of("'a' | \"b\""), [{ type: 'string', enum: ['a', 'b'] }, false]);
  assert.deepEqual(of('1 | 2 | null'), [{ enum: [1, 2, null] }, false]);
  assert.deepEqual(of('Array.<string[]>'), [{ type: 'array', items: { type: 'array', items: { type: 'string' } } }, false]);
  assert.deepEqual(of('(string | number)[]'), [{ type: 'array', items: { type: ['string', 'number'] } }, false]);
  assert.deepEqual(of('Record<string, boolean>'), [{ type: 'object', additionalProperties: { type: 'boolean' } }, false]);
  assert.deepEqual(of('[string, number]'), [{ type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }], minItems: 2, maxItems: 2 }, false]);
  assert.deepEqual(of('{ x: number, y?: { z: any } }')[0], {
    type: 'object',
    properties: { x: { type: 'number' }, y: { type: 'object', properties: { z: {} }, required: ['z'], additionalProperties: false } },
    required: ['x'],
    additionalProperties: false,
  });
  assert.deepEqual(of('string | { x: number }')[0].anyOf.length, 2);
});

test('defaults make optional', () => {
  const found = schema("/** F.\n * @param {string} a\n * @param {number} [b=2]\n * @param {string} [c='x'] C.\n * @param {string[]} d\n */\nfunction f({ a, b, c, d = [] }, context) {}");
  assert.deepEqual(found.required, ['a']);
  assert.deepEqual([found.properties.b.default, found.properties.c.default, found.properties.d.default], [2, 'x', []]);
});

test('properties of a named parameter', () => {
  const found = schema('/** F.\n * @param {object} args\n * @param {string} args.a A.\n * @param {object} [args.b]\n * @param {number} args.b.c C.\n * @param {Context} context The call.\n */\nfunction f(args, context) {}');
  assert.deepEqual(found.required, ['a']);
  assert.deepEqual(found.properties.b, { type: 'object', properties: { c: { type: 'number', description: 'C.' } }, required: ['c'], additionalProperties: false });
  assert.deepEqual(schema('/** F. @param {x} y\n * @param {{ a: string }} args */\nfunction f(args) {}').required, ['a']);
});

test('types of TypeScript', () => {
  const found = documentationOf('w.ts', `
interface Place {
  /** The city. */
  readonly city: string; // not a word about it
  units?: Units,
}
type Units = | 'metric' | 'imperial';
/**
 * Weather.
 * @param args.units Which.
 */
export async function weather({ city, units = 'metric' }: Place, context: Context): Promise<{ a: string }> {}
/** Inline. */
export const inline = ({ a, b }: { a: string[]; b?: number }): string => '';
/** Whole. */
function whole(args: Place) {}
`);
  assert.deepEqual(found.weather.parameters.properties, {
    city: { type: 'string', description: 'The city.' },
    units: { type: 'string', enum: ['metric', 'imperial'], description: 'Which.', default: 'metric' },
  });
  assert.deepEqual(found.weather.parameters.required, ['city']);
  assert.deepEqual(found.inline.parameters.required, ['a']);
  assert.deepEqual(found.whole.parameters.required, ['city']);
});

test('what has no schema says so', () => {
  const of = (type, names = '{ a }') => problem(`/** F.\n * @param {${type}} a\n */\nfunction f(${names}) {}`);
  assert.match(of('Date'), /^parameter `a: Date` has no JSON Schema \(`Date`\); allowed are string, number/);
  assert.match(of('() => void'), /parameter `a: \(\) => void`/);
  assert.match(of('string', '{ a, b }'), /^parameter `b` is not documented; add `@param \{string\} b \.\.\.`$/);
  assert.match(of('string', '{ b }'), /not documented|does not take/);
  assert.match(of('string', '{}'), /^documents `a`, which the function does not take; it takes nothing$/);
  assert.match(problem('/** F.\n * @param a\n */\nfunction f({ a }) {}'), /^parameter `a` has no type/);
  assert.match(problem('/** F. */\nfunction f({ a: { b } }) {}'), /cannot be read/);
});

test('arrays of objects, as JSDoc writes them', () => {
  const name = { type: 'string', description: 'The name.' };
  const items = { type: 'array', items: { type: 'object', properties: { name }, required: ['name'], additionalProperties: false }, description: 'All of them.' };
  const of = (lines, names = '{ items }') => schema(`/** F.\n${lines.map((line) => ` * @param ${line}\n`).join('')} */\nfunction f(${names}) {}`);
  const field = '{string} items[].name The name.';
  assert.deepEqual(of(['{object[]} items All of them.', field]), { type: 'object', properties: { items }, required: ['items'], additionalProperties: false });
  assert.deepEqual(of([field, '{Array<Object>} items All of them.']).properties, { items });
  assert.deepEqual(of(['{object} args', '{object[]} [args.items] All of them.', '{string} args.items[].name - The name.'], 'args'), { type: 'object', properties: { items }, additionalProperties: false });
  assert.deepEqual(of(['{object[]|null} items', field]).properties.items.anyOf[0], { type: 'array', items: items.items });
  assert.deepEqual(of(['{object[]} items', '{object[]} items[].parts', '{number} [items[].parts[].size=2] Its size.']).properties.items.items.properties.parts.items, {
    type: 'object', properties: { size: { type: 'number', description: 'Its size.', default: 2 } }, additionalProperties: false,
  });
  assert.deepEqual(of(['{string[]} items', '{string} items[] One of them.']).properties.items, { type: 'array', items: { type: 'string', description: 'One of them.' } });
  assert.match(problem(`/** F.\n * @param {string} items\n * @param ${field}\n */\nfunction f({ items }) {}`), /^documents what is in `items`, which is no array; write `@param \{object\[\]\} items \.\.\.`$/);
  assert.match(problem('/** F.\n * @param {string} a\n * @param {number} a\n */\nfunction f({ a }) {}'), /^documents `a` twice/);
});

test('what is in an object may be documented before it', () => {
  const found = schema('/** F.\n * @param {number} b.c C.\n * @param {object} b B.\n */\nfunction f({ b }) {}');
  assert.deepEqual(found.properties.b, { type: 'object', description: 'B.', properties: { c: { type: 'number', description: 'C.' } }, required: ['c'], additionalProperties: false });
});

test('types are read to their end', () => {
  const declarations = 'interface Base { a: string }\ntype Extra = { b?: number } // more\nexport type Both = Base & Extra & { c: boolean };\ninterface Longer extends Base { d: string }\ntype Odd = Base extends Extra ? string : number\n';
  const of = (type) => documentationOf('w.ts', `${declarations}/** F. */\nfunction f(args: ${type}) {}`).f;
  const both = { a: { type: 'string' }, b: { type: 'number' } };
  assert.deepEqual(of('Base & Extra').parameters, { type: 'object', properties: both, required: ['a'], additionalProperties: false });
  assert.deepEqual(of('Both = {}').parameters, { type: 'object', properties: { ...both, c: { type: 'boolean' } }, required: ['a', 'c'], additionalProperties: false });
  assert.deepEqual(said('/** F.\n * @param {{ a: string } & { b: number }} args\n */\nfunction f(args) {}').parameters.required, ['a', 'b']);
  assert.match(of('Base & string').problem, /^parameter `arguments: Base & string` joins with `&` what is no object with named properties; write one/);
  assert.match(of('Base & { a: number }').problem, /has two types for `a`, joined with `&`/);
  assert.match(of('Longer').problem, /is declared with `extends`, which is not understood \(`Longer`\); write `type Longer = Base & \{ \.\.\. \}`/);
  assert.match(of('{ a: Odd }').problem, /goes on with `extends Extra \? string : number`, which is not understood/);
  assert.match(of('{ a: Base.x }').problem, /has no JSON Schema \(`Base\.x`\)/);
  assert.match(problem('/** F.\n * @param {string, number} a\n */\nfunction f({ a }) {}'), /^parameter `a: string, number` goes on with `, number`, which is not understood; write several types as `A \| B`; allowed are/);
  assert.match(problem('/** F.\n * @param {string number} a\n */\nfunction f({ a }) {}'), /goes on with `number`/);
});

test('records and their keys', () => {
  const of = (type) => documentationOf('w.ts', `/** F. */\nfunction f(args: { a: ${type} }, context) {}`).f;
  const number = { type: 'number' };
  assert.deepEqual(of("Record<'x' | 'y', number>").parameters.properties.a, { type: 'object', properties: { x: number, y: number }, required: ['x', 'y'], additionalProperties: false });
  assert.deepEqual(of('Record<number, number>').parameters.properties.a.propertyNames, { pattern: '^-?[0-9.]+$' });
  assert.match(of('Record<boolean, number>').problem, /has a `Record` whose keys are neither/);
  assert.match(of('Array<string, number>').problem, /has no JSON Schema \(`Array`\)/);
  assert.deepEqual(documentationOf('w.ts', '/** F. */\nfunction f(args: Record<string, number>, context) {}').f.parameters, { type: 'object', properties: {}, additionalProperties: number });
});

test('a parameter of which nothing is said is refused', () => {
  const of = (comment, parameters) => said(`/** F.\n${comment} */\nfunction f(${parameters}) {}`);
  assert.match(of('', 'args').problem, /^takes `args`, and nothing says what is in it; add `@param \{string\} args\.text \.\.\.` for each/);
  assert.match(of(' * @param args The arguments.\n', 'args, context').problem, /^takes `args`, and nothing says/);
  assert.match(of(' * @param {object} args The arguments.\n', 'args').problem, /^parameter `args: object` does not say what is in it; write `\{ text: string \}`, or `Record<string, any>`/);
  assert.match(of('', 'args: object').problem, /does not say what is in it/);
  const nothing = { type: 'object', properties: {}, additionalProperties: false };
  assert.deepEqual(of('', '_args, context').parameters, nothing);
  assert.deepEqual(of('', '{}').parameters, nothing);
  assert.deepEqual(of(' * @param {Record<string, any>} args\n', 'args').parameters, { ...nothing, additionalProperties: {} });
});

test('defaults have the type of their parameter', () => {
  const of = (type, given) => said(`/** F.\n * @param {${type}} [a=${given}]\n */\nfunction f({ a }) {}`);
  const fits = (type, given, expected) => assert.deepEqual(of(type, given).parameters?.properties.a.default, expected, `${type} ${given} ${of(type, given).problem}`);
  fits('string|null', 'null', null);
  fits('string', 'null', undefined);
  fits('integer', 'LIMIT', undefined);
  fits('integer', '1_000', 1000);
  fits('number', '-.5', -0.5);
  fits('string', 'metric', 'metric');
  fits('string', '12', '12');
  fits("'a' | 'b'", 'b', 'b');
  fits("'a' | 'b'", "'b'", 'b');
  fits('string', '2026-01-31', '2026-01-31');
  fits('string[]', '[]', []);
  fits('any', 'LIMIT', undefined);
  assert.match(of('integer', '"5"').problem, /^parameter `a` has the default `"5"`: "5" is not of type integer; write a value of its type$/);
  assert.match(of("'a' | 'b'", "'c'").problem, /"c" is not one of \["a","b"\]/);
  const code = (given) => said(`/** F.\n * @param {integer} a\n */\nfunction f({ a = ${given} }) {}`);
  assert.deepEqual([code('5'), code('null'), code('LIMIT')].map((one) => one.parameters.properties.a.default), [5, undefined, undefined]);
  assert.match(code("'5'").problem, /has the default `'5'`: "5" is not of type integer/);
});
