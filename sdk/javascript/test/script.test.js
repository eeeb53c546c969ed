// Scripts as the runner loads them: compiled by the lexer and by sucrase, with the same result.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { compile } from '../component/compile.js';
import { Script } from '../component/load.js';
import { DefinitionError, whereOf } from '../src/errors.js';

const preloaded = { 'toolhost-sdk': { tool: (value) => value, DefinitionError }, zod: { z: 'z', default: 'z' } };

/** Loads a script and returns what its main module exports. */
function load(files) {
  const script = opened(files);
  return script.exportsOf(script.main);
}

function opened(files) {
  const modules = Object.entries(files).map(([path, text]) => ({ path, text }));
  const script = new Script(modules, preloaded);
  script.load();
  return script;
}

/** Loads a script from what an instance that has loaded it keeps for the next one. */
function reopened(files, texts = () => assert.fail('the texts are not needed')) {
  const script = Script.unpacked(opened(files).packed(), texts, preloaded);
  script.load();
  return script;
}

const problem = (files) => {
  try {
    load(files);
  } catch (error) {
    assert.equal(error.name, 'ScriptError', error.stack);
    return error.message;
  }
  return assert.fail('it loads');
};

/** Tells that a text is compiled by the lexer, or not, and that both ways give the same exports. */
function same(text, isQuick, others = {}) {
  const compiled = compile('main.js', text);
  assert.equal(!compiled.isFull, isQuick, text);
  const full = Object.entries({ 'main.js': text, ...others }).map(([path, source]) => ({ path, text: source }));
  const slow = new Script(full, preloaded);
  for (const { path } of full) slow.compiled(path, 'full');
  slow.load();
  const shown = (exports) => JSON.stringify(Object.fromEntries(Object.keys(exports).sort().map((name) => [name, typeof exports[name] === 'function' && !/^class/.test(exports[name]) ? exports[name]() : exports[name]])));
  assert.equal(shown(load({ 'main.js': text, ...others })), shown(slow.exportsOf('main.js')), text);
  assert.equal(shown(reopened({ 'main.js': text, ...others }).exportsOf('main.js')), shown(slow.exportsOf('main.js')), text);
}

const LIB = { 'lib/a.js': 'export const a = 1;\nexport function f() { return 2; }\nexport default class A { static toJSON() { return 1; } }\nexport { a as b };', 'lib/index.js': "export * from './a.js';\nexport const c = 3;" };

test('what the lexer compiles', () => {
  same("import { a, b as other } from './lib/a.js';\nimport A, * as all from './lib/a';\nexport const sum = a + other + all.f();\nexport const isClass = typeof A;", true, LIB);
  same("import './lib/a.js';\nimport {\n  a, // one\n  f,\n} from './lib'\nexport { a, f as g }\n", true, LIB);
  same("export * from './lib/index.js';\nexport * as all from './lib/a.js';\nexport { default as A } from './lib/a.js';", true, LIB);
  same('const a = 1;\nclass B {}\nexport default a;\nexport { a, B as C };', true);
  same('export default function named() { return 1; }', true);
  same('export default { a: [1, `b`] };\nexport async function* g() {}', true);
  const { a, d, e } = load({ 'main.js': 'export const a = ({ b, c = 2 }) => [b, c],\n  d = [a, 1],\n  e = `${d}, f = 1`;' });
  assert.deepEqual([a({ b: 1 }), d[1], typeof e], [[1, 2], 1, 'string']);
  same("export const f = ({ b, c = 2 } = {}) => [c, '}', `${b}`];\nexport const g = () => f();", true);
});

test('what looks like a statement and is none', () => {
  same('export const a = `\nimport { x } from "y";\nexport const b = 1;\n`;', true);
  same('export const a = `${`\nexport const b = 1;\n`}`;', true);
  same('export const a = `${[1].map((x) => { return { x }; })}\nexport const b = 2`;', true);
  same('/*\nimport x from "x";\n*/\n// export const y = 1;\nexport const a = 1;', true);
  same('export const a = "\\\nexport const b = 1;";', true);
  same('export const a = { import: 1,\n  export: 2 };', true);
  same("export const a = /['\"`]/.test('x') ? 1 / 2 / 3 : /[/]\\//.exec('a');\nexport const b = `x`;", true);
  same("const x = 4;\nexport const a = x / 2; // it's\nexport const b = (x) / 2;", true);
});

test('what is left to sucrase', () => {
  same('export let a = 1;\na = 2;', false);
  same("import A, * as all from './lib/a.js';\nimport { z } from 'zod';\nimport zod from 'zod';\nexport let a = [typeof A, all.f(), z, zod];", false, LIB);
  same('export const { a, b } = { a: 1, b: 2 };', false);
  same('export default function () { return 1; }', false);
  same('let a = 1;\na = 2;\nexport { a };', false);
  same('const x = 1; export { x };', true);
});

test('a script is strict, and knows nothing of how it is loaded', () => {
  assert.deepEqual({ ...load({ 'a.js': 'export const self = (function () { return this; })();\nexport const top = typeof this;' }) }, { self: undefined, top: 'undefined' });
  assert.match(problem({ 'a.js': 'undeclared = 1;' }), /^a\.js:1: ReferenceError/);
});

test('modules that import each other', () => {
  const found = load({
    'main.js': "import { isOdd } from './odd.js';\nexport function isEven(n) { return n === 0 || isOdd(n - 1); }\nexport const answer = isOdd(3);",
    'odd.js': "import { isEven } from './main.js';\nexport function isOdd(n) { return n !== 0 && isEven(n - 1); }",
  });
  assert.equal(found.answer, true);
});

test('TypeScript', () => {
  const found = load({
    'plugin.ts': "import type { T } from './types';\nimport { a, type U } from './lib.js';\nenum E { A = 1 }\nexport const x: number = (a as unknown as number) + E.A;\nexport const f = <T,>(v: T): T => v;",
    'lib.ts': 'export interface U { b: string }\nexport const a: string | number = 1;',
    'types.ts': 'export type T = 1;',
  });
  assert.equal(found.x, 2);
});

test('dynamic imports', async () => {
  const found = load({ 'main.js': "export const later = () => import('./b.js');", 'b.js': 'export const b = 2;' });
  assert.equal((await found.later()).b, 2);
});

test('errors have the file and the line of the author', () => {
  assert.match(problem({ 'w.js': 'const a = 1;\n\nthrow new TypeError("bad");' }), /^w\.js:3: TypeError: bad$/);
  const files = { 'w.js': "import { b } from './lib/b';\n", 'lib/b.js': '\nexport const b = missing;' };
  assert.match(problem(files), /^lib\/b\.js:2: ReferenceError: missing is not defined$/);
  assert.match(problem({ 'w.ts': 'interface A {\n  a: string;\n}\nconst a: A = undefined.b;' }), /^w\.ts:4: TypeError/);
  assert.match(problem({ 'w.js': "import { DefinitionError } from 'toolhost-sdk';\nthrow new DefinitionError('no name');" }), /^w\.js:2: no name$/);
  assert.match(problem({ 'w.ts': 'const a: = 1;' }), /^w\.ts:1: SyntaxError: /);
});

test('imports that lead nowhere', () => {
  assert.match(problem({ 'w.js': "\nimport { x } from 'lodash';" }), /^w\.js:2: no module named 'lodash': a script can import its own modules \(by '\.\/\.\.\.'\) and what the runner has \(toolhost-sdk, zod\); for others build a component with `toolhost build`$/);
  assert.match(problem({ 'w.js': "import { readFile } from 'node:fs';" }), /no module named 'node:fs'/);
  assert.match(problem({ 'w.js': "import { x } from './x.js';", 'y.js': '' }), /^w\.js:1: no module '\.\/x\.js': the script has w\.js, y\.js$/);
  assert.match(problem({ 'w.js': "import { x } from '../x.js';" }), /no module '\.\.\/x\.js'/);
  assert.match(problem({ 'w.js': "import { a } from './y.js';", 'y.js': 'export const b = 1;' }), /^w\.js:1: '\.\/y\.js' exports no `a`; it exports b$/);
  assert.match(problem({ 'w.js': "import { tol } from 'toolhost-sdk';" }), /exports no `tol`; it exports tool/);
});

test('what is kept of a script is loaded without compiling', async () => {
  const files = {
    'w.ts': "import { b, type T } from './lib/b';\n/* one\n two */ export const a: T = b('x'); // three\nexport const later = () => import('./late.js');\nexport const fail = () => {\n  throw new Error('no');\n};",
    'lib/b.ts': "export type T = string;\nimport { c } from '../c.js';\n\n/** Adds. */\nexport const b = (x: string): T => x + c() + /* 1 */ 2 /* */ / 1;",
    'c.js': "import { a } from './w.ts';\nexport function c() { return typeof a === 'undefined' ? '//' : `/* ${a /* a */} */`; }",
    'late.js': 'export const d = 4; // four',
    'other.ts': 'const = 1;',
  };
  const script = reopened(files);
  const { a, later, fail } = script.exportsOf('w.ts');
  assert.equal(a, 'x//2');
  assert.equal((await later()).d, 4);
  assert.throws(fail, (error) => whereOf(error.stack, (file, line) => script.place(file, line)) === 'w.ts:6');
});

test('what is kept of a script that fails has its texts for the error', () => {
  const files = { 'w.js': "\nimport('./no.js').then(() => 0, () => 0);\nexport const get = () => import('lodash');" };
  const texts = () => [{ path: 'w.js', text: files['w.js'] }];
  const script = reopened(files, texts);
  return assert.rejects(script.exportsOf('w.js').get(), /^ScriptError: w\.js:3: no module named 'lodash'/);
});
