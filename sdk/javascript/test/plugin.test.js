// A plugin as its author wrote it: what it registers, and what its tools answer.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

import { call, check, checkExamples, clearKv, describe, hook, logged, progressed, registration, reset, respondWith, withEnv, withFiles, withSecrets } from '../testing.js';
import { BadArguments, ToolError, env, fetch, files, hooks, image, kv, log, need, plugin, progress, resource, secrets, structured, text as textBlock, tool } from '../index.js';
import { countWords, repeat } from './fixtures/words.js';
import { host } from '../src/host.js';
import { definitions } from '../src/plugin.js';

const words = { ...definitions, tools: new Map(definitions.tools) };
beforeEach(() => {
  reset();
  Object.assign(definitions, { ...words, tools: new Map(words.tools) });
});

const text = async (how) => (await call('answers', { how })).text;

test('what is registered', () => {
  const found = registration();
  assert.deepEqual([found.name, found.version], ['words', '1.2.3']);
  assert.deepEqual(found.tools.map(({ name }) => name), ['split', 'count_words', 'repeat', 'answers']);
  const [split, count, repeated, answers] = found.tools;
  assert.equal(split.description, 'Splits a text.');
  assert.deepEqual(count.parameters, {
    type: 'object',
    properties: {
      text: { type: 'string', description: 'The text.' },
      top: { type: 'integer', description: 'How many of them to return.', default: 3 },
    },
    required: ['text'],
    additionalProperties: false,
  });
  assert.deepEqual(count.annotations, { readOnly: true, destructive: false, idempotent: undefined, openWorld: undefined });
  assert.deepEqual(count.examples, [{ arguments: '{"text":"a b"}', expected: '2' }, { arguments: '{"text":""}', expected: undefined }]);
  assert.deepEqual(repeated.parameters, {
    type: 'object',
    properties: { text: { type: 'string', minLength: 1, description: 'The text.' }, times: { default: 2, type: 'integer', minimum: 1, maximum: 9 } },
    required: ['text'],
    additionalProperties: false,
  });
  assert.equal(repeated.output.additionalProperties, false);
  assert.deepEqual([count.toolset, count.hasCheck, answers.hasCheck, answers.hasDynamicSchema], ['text', false, true, true]);
  assert.deepEqual([repeated.extensions, answers.extensions], [[['check', '"repeat"']], [['check', '"repeat"']]]);
  assert.deepEqual(found.needs, [
    { kind: 'http', value: { hosts: ['GET https://api.example.com/'] }, tools: ['count_words'], reason: 'to look words up' },
    { kind: 'secrets', value: { name: 'TOKEN', hosts: ['api.example.com'], header: 'authorization' }, tools: [], reason: '' },
    { kind: 'kv', value: {}, tools: ['split'], reason: '' },
  ]);
});

test('a tool stays a function', () => {
  assert.deepEqual(countWords({ text: 'a b c d' }), { words: 4, top: ['a', 'b', 'c'] });
});

test('what a tool returns', async () => {
  assert.equal((await call(countWords, { text: 'a b' })).text, '{"words":2,"top":["a","b"]}');
  assert.deepEqual((await call(repeat, { text: 'ab' })).structured, { text: 'abab', tool: 'repeat' });
  assert.deepEqual([await text('text'), await text('nothing'), await text('number'), await text('array')], ['text', '', '7', '["a",1]']);
  assert.deepEqual([await text('blocks'), await text('list')], ['a\n{"b":1}', 'a\nb']);
  const blocks = await call('answers', { how: 'blocks' });
  assert.deepEqual(blocks.content[2], { tag: 'image', val: { mediaType: 'image/png', data: new Uint8Array([1]) } });
  const answer = await call('answers', { how: 'structured' });
  assert.deepEqual([answer.text, answer.structured], ['one a', { a: 1 }]);
  await checkExamples();
});

test('arguments that do not fit are refused with their path', async () => {
  const refused = (tool, args, path, message) => assert.rejects(call(tool, args), { code: 'bad-arguments', path, message });
  await refused(countWords, {}, undefined, '/: "text" is a required property');
  await refused(countWords, { text: 'a', tpo: 1 }, undefined, '/: additional property "tpo" is not allowed');
  await refused(countWords, { text: 'a', top: 1.5 }, '/top', '/top: 1.5 is not of type integer');
  await refused(repeat, { text: 'a', times: 10 }, '/times', '/times: 10 is greater than 9');
});

test('what JSON would lose is written or refused', async () => {
  const answer = async (value, shown) => {
    tool({ name: 'give', description: 'Gives.' }, () => (shown ? structured(value, shown) : value));
    try {
      return (await call('give')).text;
    } finally {
      definitions.tools.delete('give');
    }
  };
  assert.equal(await answer(new Map([['a', new Map([[1, new Set([2])]])]])), '{"a":{"1":[2]}}');
  assert.equal(await answer({ all: new Set(['a']), keys: new Map([['b', 1]]).keys(), none: new Set() }), '{"all":["a"],"keys":["b"],"none":[]}');
  assert.equal(await answer((function* () { yield 1; yield 2; })()), '[1,2]');
  assert.equal(await answer({ error: new RangeError('far', { cause: new Error('fog') }) }), '{"error":"RangeError: far: fog"}');
  assert.equal(await answer(Object.assign(new Error('gone'), { code: 'ENOENT' })), '{"name":"Error","message":"gone","code":"ENOENT"}');
  assert.equal(await answer({ at: new Date(0), 0: [{ 0: 1 }] }), '{"0":[{"0":1}],"at":"1970-01-01T00:00:00.000Z"}');
  class Point {
    x = 1;
    #y = 2;
    get y() { return this.#y; }
  }
  class Secretive {
    #all = 1;
    get all() { return this.#all; }
  }
  class Told extends Secretive {
    toJSON() { return { all: this.all }; }
  }
  assert.equal(await answer([new Point(), new Told(), Object(7), Object('a'), { get now() { return 3; } }]), '[{"x":1},{"all":1},7,"a",{"now":3}]');
  assert.equal(await answer({ left: undefined, list: [undefined, , null], empty: {}, none: [] }), '{"list":[null,null,null],"empty":{},"none":[]}');
  assert.equal(await answer({ all: [new URL('https://a.example/'), new URLSearchParams('a=1')] }), '{"all":["https://a.example/",[["a","1"]]]}');
  assert.equal(await answer(JSON.parse('{"__proto__":{"a":1},"b":1}')), '{"__proto__":{"a":1},"b":1}');
  assert.equal(await answer({ set: new Set([1]), ...JSON.parse('{"x":{"__proto__":1}}') }), '{"set":[1],"x":{"__proto__":1}}');
  assert.equal(await answer(['\u{1F600}']), '["\u{1F600}"]');
  const twice = { a: 1 };
  assert.equal(await answer([twice, twice]), '[{"a":1},{"a":1}]');
  const round = { parts: [] };
  round.parts.push({ whole: round });
  for (const [value, message] of [
    [NaN, /^TypeError: result is NaN, which JSON has no form for; return null/],
    [{ rows: [{ mean: Infinity }] }, /^TypeError: result\.rows\[0\]\.mean is Infinity, which JSON/],
    [{ n: Object(NaN) }, /^TypeError: result\.n is NaN/],
    [{ id: 10n }, /^TypeError: result\.id is the bigint 10n, .* Number\(value\), or String\(value\)/],
    [{ body: Promise.resolve(1) }, /^TypeError: result\.body is still to come, .* await/],
    [{ at: new Date(NaN) }, /^TypeError: result\.at is not a valid date/],
    [new Map([[{}, 1]]), /^TypeError: result is a Map with the key \[object Object\], /],
    [new Map([[1, 'a'], ['1', 'b']]), /^TypeError: result is a Map whose keys "1" and 1 are one name/],
    [(async function* () {})(), /^TypeError: result is still to come/],
    [new Uint8Array([1, 2]), /^TypeError: result holds bytes, .* image\('image\/png', bytes\)/],
    [new ArrayBuffer(2), /^TypeError: result holds bytes/],
    [{ rows: [{ raw: new Uint8Array() }] }, /^TypeError: result\.rows\[0\]\.raw holds bytes/],
    [new Map([['a', new Set([new DataView(new ArrayBuffer(1))])]]), /^TypeError: result\.a\[0\] holds bytes/],
    [{ of: { node: Buffer.from('ab') } }, /^TypeError: result\.of\.node holds bytes/],
    [{ toJSON: () => new Uint8Array([1, 2]) }, /^TypeError: result holds bytes/],
    [{ raw: { toJSON: () => new ArrayBuffer(2) } }, /^TypeError: result\.raw holds bytes/],
    [new Response('a'), /^TypeError: result is a Response, .* await response\.text\(\)/],
    [{ body: new Response('a').body }, /^TypeError: result\.body is a ReadableStream/],
    [[Float64Array.of(1)], /^TypeError: result\[0\] holds bytes/],
    [new Blob(['ab']), /^TypeError: result holds bytes/],
    [[new Uint8Array([1]), textBlock('a')], /^TypeError: result\[0\] holds bytes/],
    [/x/, /^TypeError: result is a RegExp, .* return its text: String\(value\)/],
    [{ a: [1, 2, 3, /x/] }, /^TypeError: result\.a\[3\] is a RegExp/],
    [{ ok: true, f() {} }, /^TypeError: result\.f is a function \(f\), which JSON has no form for; leave it out/],
    [[() => 1], /^TypeError: result\[0\] is a function, /],
    [{ 'a b': Symbol('s') }, /^TypeError: result\["a b"\] is the symbol Symbol\(s\)/],
    [{ [Symbol('s')]: 1 }, /^TypeError: result is an object whose only names are symbols/],
    [{ all: [new Secretive()] }, /^TypeError: result\.all\[0\] is a Secretive without public fields, .* toJSON/],
    [new WeakMap(), /^TypeError: result is a WeakMap without public fields/],
    [round, /^TypeError: result\.parts\[0\]\.whole contains itself/],
    ['\ud800', /^TypeError: result is text that has half of a surrogate pair \(U\+D800\) as character 1, .* value\.toWellFormed\(\)/],
    [{ a: ['x\u{1F600}\udc00'] }, /^TypeError: result\.a\[0\] is text that has half of a surrogate pair \(U\+DC00\) as character 3/],
    [{ '\ud800': 1 }, /^TypeError: result\["\\ud800"\] has a name that has half/],
    [new Map([['a', '\ud83d']]), /^TypeError: result\.a is text that has half/],
  ]) {
    await assert.rejects(answer(value), { code: 'failed', message });
  }
  tool({ name: 'once', description: 'Once.' }, () => structured({ n: [1, 2].values() }));
  const once = await call('once');
  assert.deepEqual([once.text, once.structured], ['{"n":[1,2]}', { n: [1, 2] }]);
  assert.throws(() => kv.setJson('a', { n: NaN }), { code: 'malformed', message: /the value\.n is NaN/ });
  assert.throws(() => kv.set('a', '\ud800'), { code: 'malformed', message: /^the value for `a` is text that has half/ });
  assert.throws(() => resource('file:///\ud800'), /^TypeError: resource: `uri` is text that has half/);
  kv.setJson('a', new Map([['b', 1]]));
  assert.equal(kv.getText('a'), '{"b":1}');
  assert.throws(() => image(new Uint8Array([1]), 'image/png'), /the media type is 1; write image\('image\/png', bytes\)/);
  assert.throws(() => textBlock(new Uint8Array([97])), /the text holds bytes/);
  assert.throws(() => kv.setJson('a', new Uint8Array([97])), { code: 'malformed', message: /the value holds bytes/ });
  assert.throws(() => resource(), /resource: `uri` is null/);
});

test('what a tool throws', async () => {
  const fails = (how, code, message) => assert.rejects(call('answers', { how }), { code, message });
  await fails('no', 'failed', 'the tool says no');
  await fails('bad', 'bad-arguments', 'not so');
  await fails('absent', 'not-available', 'no key');
  await fails('crash', 'failed', /^TypeError: Cannot read .* \(.*fixtures\/words\.js:\d+\)$/);
  await fails('reject', 'failed', /^RangeError: too far: the cause \(.*words\.js:\d+\)$/);
  await fails('value', 'failed', 'Error: {"a":1}');
  await fails('function', 'failed', /^TypeError: result is a function/);
  const odd = { bad: new BadArguments(5, 'no'), text: Object.assign(new ToolError('x'), { message: 5 }) };
  tool({ name: 'odd', description: 'Odd.', parameters: { type: 'object', properties: { how: {} } } }, ({ how }) => {
    throw odd[how];
  });
  await assert.rejects(call('odd', { how: 'bad' }), { code: 'bad-arguments', path: '5', message: 'no' });
  await assert.rejects(call('odd', { how: 'text' }), { code: 'failed', message: '5' });
  await assert.rejects(call('none'), { code: 'failed', message: 'this plugin has no tool `none`' });
});

test('checks and dynamic definitions', async () => {
  assert.equal(await check(repeat), undefined);
  assert.deepEqual(await describe('answers', ['other']), { description: 'beside other' });
  assert.equal(await describe('answers', []), undefined);
  const parameters = { type: 'object' };
  const throws = () => {
    throw new TypeError('broken');
  };
  for (const [name, work, expected] of [['a', () => 'no key', /^no key$/], ['b', () => false, /cannot work/], ['c', throws, /^TypeError: broken \(.*plugin\.test\.js:\d+\)$/]]) {
    tool({ name, parameters, check: work }, () => {});
    assert.match(await check(name), expected);
  }
});

test('definitions that are wrong say where and how', () => {
  const wrong = (work, message) => {
    reset();
    assert.throws(work, { name: 'DefinitionError', message });
  };
  wrong(() => tool({ name: 'a' }), /takes a definition and a function/);
  wrong(() => tool({ name: 'a', readonly: true }, () => {}), /unknown key `readonly`; known are name, .*readOnly/);
  wrong(() => tool({}, () => {}), /needs `name`/);
  for (const [definition, message] of [
    [{ name: 3 }, /^tool: `name` is 3; it takes a string$/],
    [{ name: 'a', emoji: [] }, /`emoji` is \[\]; it takes a string/],
    [{ name: 'a', requiresEnv: ['A', 3] }, /`requiresEnv` is \["A",3\]; it takes a name or an array/],
    [{ name: 'a', maxResultSizeChars: -1 }, /`maxResultSizeChars` is -1; it takes a whole number/],
    [{ name: 'a', check: 'ready' }, /`check` is "ready"; it takes a function/],
    [{ name: 'a', readOnly: 'yes' }, /`readOnly` is "yes"; it takes true or false/],
    [{ name: 'a', examples: { text: 'a' } }, /`examples` is .*; it takes an array/],
  ]) wrong(() => tool(definition, () => {}), message);
  wrong(() => need.kv({ reason: 3 }), /need: `reason` is 3; it takes a string/);
  wrong(() => plugin('a', 1), /as strings/);
  wrong(() => tool({ name: 'a' }, () => {}) && tool({ name: 'a' }, () => {}), /defines the tool `a` twice/);
  wrong(() => need.secret('A', { hosts: 'b' }), /takes one slot/);
  wrong(() => hooks({ after: () => {} }), /named request, preCall, postCall, transform; `after` is none/);
  const registers = (definition, work, message) => wrong(() => tool(definition, work) && registration(), message);
  registers({ name: 'a', parameters: { text: 'string' } }, () => {}, /plugin\.test\.js:\d+: a: parameters must be a JSON Schema of an object/);
  registers({ name: 'a', parameters: { type: 'object', properties: { x: { pattern: /x/ } } } }, () => {}, /plugin\.test\.js:\d+: a: parameters\.properties\.x\.pattern is a RegExp/);
  registers({ name: 'a' }, (args) => args, /plugin\.test\.js:\d+: a: no parameters; give a JSON Schema/);
  registers({ name: 'a', parameters: { type: 'object' }, examples: ['x'] }, () => {}, /an example is/);
});

test('a plugin that says nothing of itself', () => {
  reset();
  assert.throws(registration, /the plugin defines nothing; make a function a tool/);
  tool({ name: 'a', description: 'A.' }, () => 1);
  const found = registration();
  assert.deepEqual([found.name, found.version, found.tools[0].toolset], ['plugin', '0.0.0', 'plugin']);
  assert.deepEqual(found.tools[0].parameters, { type: 'object', properties: {}, additionalProperties: false });
});

test('hooks', async () => {
  const call = { tool: 'other', arguments: { path: '/etc/x' } };
  assert.deepEqual(await hook('preCall', call), { tag: 'allow' });
  hooks({
    request: ({ arguments: given }) => ({ ...given, more: 1 }),
    preCall: ({ arguments: { path } }) => (path.startsWith('/etc') ? { block: 'no' } : { ask: 'may I?', ruleKey: 'k' }),
    postCall: (_call, { durationMs }) => log.info(`took ${durationMs + 1}`),
    transform: () => undefined,
  });
  assert.equal(await hook('request', call), '{"path":"/etc/x","more":1}');
  assert.deepEqual(await hook('preCall', call), { tag: 'block', val: 'no' });
  assert.deepEqual(await hook('preCall', { tool: 'other', arguments: { path: 'x' } }), { tag: 'ask', val: { message: 'may I?', ruleKey: 'k' } });
  assert.deepEqual(await logged(() => hook('postCall', call, { result: '1', durationMs: 4n })), ['info: took 5']);
  assert.equal(await hook('transform', call, { result: '1', durationMs: 4n }), undefined);
  reset();
  hooks({ preCall: () => 'maybe' });
  await assert.rejects(hook('preCall', call), (text) => /preCall returns/.test(text));
});

test('hooks that are given one after the other are all asked', async () => {
  const call = (path) => ({ tool: 'other', arguments: { path } });
  hooks({ preCall: ({ arguments: { path } }) => (path.startsWith('/etc') ? { block: 'first' } : undefined), request: ({ arguments: given }) => ({ ...given, n: 1 }) });
  hooks({ preCall: () => ({ ask: 'second?' }), request: ({ arguments: given }) => ({ ...given, n: given.n + 1 }), transform: () => undefined });
  hooks({ preCall: ({ arguments: { path } }) => (path === 'x' ? { block: 'third' } : undefined), transform: (_call, { result }) => `was ${result}` });
  hooks({ transform: () => 'never' });
  assert.deepEqual(await hook('preCall', call('/etc/x')), { tag: 'block', val: 'first' });
  assert.deepEqual(await hook('preCall', call('x')), { tag: 'block', val: 'third' });
  assert.deepEqual(await hook('preCall', call('y')), { tag: 'ask', val: { message: 'second?', ruleKey: undefined } });
  assert.equal(await hook('request', call('y')), '{"path":"y","n":2}');
  assert.equal(await hook('transform', call('y'), { result: '1', durationMs: 4n }), 'was 1');
});

test('the store is like the host\'s', () => {
  clearKv();
  assert.equal(kv.get('a'), undefined);
  kv.setJson('a', [1, 2]);
  assert.deepEqual([kv.getText('a'), kv.getJson('a')], ['[1,2]', [1, 2]]);
  assert.equal(kv.swap('a', undefined, 'x'), false);
  assert.equal(kv.swap('a', '[1,2]', undefined), true);
  assert.equal(kv.delete('a'), false);
  assert.throws(() => kv.set('', 'x'), { code: 'invalid', message: 'key of 0 bytes; allowed are 1 to 512' });
  assert.throws(() => kv.get(5), { code: 'invalid', message: 'a key is a string, and this one is 5' });
  assert.throws(() => kv.set('a', 1), { code: 'malformed' });
  assert.throws(() => kv.set('a', new Uint8Array((1 << 20) + 1)), { code: 'invalid' });
  for (let number = 0; number < 2_500; number++) kv.set(`n${String(number).padStart(4, '0')}`, '');
  kv.set('other', new Uint8Array([255]));
  const keys = [...kv.keys('n')];
  assert.deepEqual([keys.length, keys[0], keys[2_499], [...kv.keys()].length], [2_500, 'n0000', 'n2499', 2_501]);
  assert.throws(() => kv.getText('other'), { code: 'malformed', message: 'the value of `other` is no text' });
});

test('what stands in for the host', async () => {
  await assert.rejects(fetch('https://a.example/'), /respondWith/);
  const answer = await respondWith(
    (request) => new Response(`${request.method} ${request.url}`, { status: 404 }),
    async () => (await fetch('https://a.example/x', { method: 'POST', body: 'b' })).text(),
  );
  assert.equal(answer, 'POST https://a.example/x');
  assert.equal(secrets.present('T'), false);
  assert.deepEqual(await withSecrets(['T'], () => [secrets.present('T'), secrets.placeholder('T'), secrets.placeholder('U')]), [true, '{{secret:T}}', undefined]);
  assert.equal(await withEnv({ LANG: 'C' }, () => env('LANG')), 'C');
  assert.deepEqual(await progressed(() => progress(1, 2, 'half')), [{ done: 1, total: 2, message: 'half' }]);
  assert.throws(() => progress('half'), /^TypeError: progress: `done` is "half"; it takes a number$/);
  assert.deepEqual(await logged(() => log.warn('careful')), ['warn: careful']);
});

test('files', async () => {
  const large = new Uint8Array(3_000_000).map((_, index) => index % 251);
  await withFiles({ 'data/a.txt': 'é', 'data/sub/b': large, '/etc/x': new Uint8Array([255]) }, () => {
    assert.equal(files.readText('data/a.txt'), 'é');
    assert.equal(files.readText('./data/sub/../a.txt'), 'é');
    assert.deepEqual(files.readBytes('data/sub/b'), large);
    assert.deepEqual(files.list('data'), [{ name: 'a.txt', kind: 'file' }, { name: 'sub', kind: 'directory' }]);
    assert.deepEqual([files.list('.'), files.list('/')].flat().map(({ name }) => name), ['data', 'etc']);
    files.writeText('data/a.txt', 'b');
    files.writeBytes('data/new', large);
    assert.deepEqual([files.readText('data/a.txt'), files.readBytes('data/new').length], ['b', 3_000_000]);
    const fails = (work, code, message) => assert.throws(work, { name: 'FileError', code, message });
    fails(() => files.readText('data/none'), 'no-entry', 'there is no file `data/none`');
    fails(() => files.writeText('none/x', ''), 'no-entry', /`none\/x`/);
    fails(() => files.list('none'), 'no-entry', 'there is no directory `none`');
    fails(() => files.readText('data'), 'is-directory', '`data` is a directory; files.list says what is in it');
    fails(() => files.list('data/a.txt'), 'not-directory', /`data\/a.txt` is no directory/);
    fails(() => files.readText('/etc/x'), 'malformed', /`\/etc\/x` is no UTF-8 text; read it with files.readBytes/);
    fails(() => files.readText('../x'), 'not-granted', /^`\.\.\/x` is in no directory that was granted for that \(`\/`, `\.`\)/);
    fails(() => files.readText(''), 'invalid', /a path is a text/);
    fails(() => files.writeText('data/a.txt', 1), 'malformed', /must be a string/);
    fails(() => files.writeBytes('data/a.txt', 'x'), 'malformed', /files\.writeText/);
  });
  assert.throws(() => files.readText('data/a.txt'), /granted for that \(none\): a test gives files with withFiles/);
});

test('what is not granted names what is, and leaves the command to the host', async () => {
  const closed = [];
  const denying = {
    openAt(_flags, path, { create }) {
      if (create) throw Object.assign(new Error('x'), { payload: 'read-only' });
      if (path === 'odd') throw { payload: 'quota' };
      if (path === 'folder') return { read: () => { throw { payload: 'bad-descriptor' }; } };
      return { read: () => [new Uint8Array([97]), true], [Symbol.dispose ?? Symbol.for('dispose')]: () => closed.push(path) };
    },
  };
  const before = { isNative: host.isNative, directories: host.directories };
  const names = [];
  const name = { openAt: (_flags, path) => { names.push(path); throw { payload: 'not-permitted' }; } };
  Object.assign(host, { isNative: false, directories: () => [[name, '/'], [name, '.'], [{}, '/data'], [denying, '/data/in']] });
  try {
    assert.equal(files.readText('/data/in/a/b.txt'), 'a');
    assert.deepEqual(closed, ['a/b.txt']);
    assert.throws(() => files.writeText('/data/in/a.txt', ''), { code: 'read-only', message: "the host does not let this plugin write `/data/in/a.txt`: a plugin asks for directories with need.writeDirectory('*'), and the operator grants them" });
    assert.throws(() => files.readText('/data/in/odd'), { code: 'quota', message: '`/data/in/odd` cannot be read: quota' });
    assert.throws(() => files.readText('/data/in/folder'), { code: 'is-directory' });
    // The host knows where relative paths lead, and what it was that was refused.
    assert.throws(() => files.readText('../x/y'), { code: 'not-granted', message: "`../x/y` is in no directory that was granted for that (`/data`, `/data/in`): a plugin asks for directories with need.readDirectory('*'), and the operator grants them" });
    assert.throws(() => files.readText('a'), /grants them$/);
    assert.deepEqual(names, ['../x/y', 'a']);
    assert.throws(() => files.list('/data2'), { code: 'not-granted', message: /^`\/data2` is in no directory that was granted for that \(`\/data`, `\/data\/in`\): a plugin asks for directories with need\.readDirectory/ });
    assert.throws(() => files.readText('/x'), /grants them$/);
  } finally {
    Object.assign(host, before);
  }
});

test('an error of the network says who can help', async () => {
  const broken = () => {
    throw new TypeError('NetworkError when attempting to fetch resource');
  };
  const ask = () => fetch('https://a.example/x');
  await assert.rejects(respondWith(broken, ask), /^TypeError: no answer from https:\/\/a\.example: .*`toolhost grant ID --http https:\/\/a\.example`/);
});

test('a toolset that nobody has named is one that a host takes', () => {
  const toolset = (name) => {
    reset();
    plugin(name);
    tool({ name: 'a', description: 'A.' }, () => 1);
    return registration().tools[0].toolset;
  };
  const names = { 'My Words!': 'my-words', 'mcp-github': 'plugin', 'MCP github': 'plugin', '': 'plugin', '…': 'plugin', a_b: 'a_b' };
  for (const [name, expected] of Object.entries(names)) assert.equal(toolset(name), expected, name);
});

test('the name of a plugin may be set late', () => {
  plugin('other');
  assert.equal(registration().name, 'other');
});
