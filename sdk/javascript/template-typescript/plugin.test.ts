// Run with `npm test`.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call, checkExamples } from 'toolhost-sdk/testing';

import { {{ident}}_count } from './plugin.ts';

test('words are counted', async () => {
  const answer = await call({{ident}}_count, { text: 'one two three', min_length: 4 });
  assert.equal(answer.text, '{"words":1}');
});

test('what cannot be counted is refused', async () => {
  await assert.rejects(call({{ident}}_count, { text: '' }), { code: 'failed' });
  await assert.rejects(call({{ident}}_count, { txt: 'a' }), { code: 'bad-arguments' });
});

test('the examples hold', checkExamples);
