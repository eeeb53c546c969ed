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
