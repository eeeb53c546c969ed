// A plugin that has a bit of everything, for the tests: what it says of itself, results, errors.

import {
  BadArguments, NotAvailable, ToolError, env, image, json, kv, log, need, output, plugin, progress, secrets, structured, text, tool,
} from 'toolhost-sdk';

plugin('mixed', '1.2.3', { toolset: 'mixed' });
need.http('http://localhost:*', { reason: 'to ask a server', tools: ['ask'] });
need.secret('TOKEN', { hosts: ['localhost:*'], header: 'x-token' }, { reason: 'to be let in', tools: ['ask'] });
need.kv({ reason: 'to count' });
need.env('GREETING');

/**
 * Repeats a text.
 *
 * @param {string} text The text.
 * @param {integer} [times=1] How often.
 * @param {'plain' | 'loud'} [mode='plain'] How loud.
 */
function repeat({ text: given, times = 1, mode = 'plain' }) {
  log.info('repeating');
  progress(1, 2, 'half');
  return Array(times).fill(mode === 'loud' ? given.toUpperCase() : given).join(' ');
}
tool(repeat, {
  emoji: '🧺', readOnly: true, idempotent: true, openWorld: false, maxResultSizeChars: 9000,
  examples: [{ arguments: { text: 'a b', times: 2 }, expected: 'a b a b' }],
});

/**
 * Says where a place is.
 *
 * @param {{ city: string, zip?: integer }} place The place.
 * @param {string[]} [tags] What it is like.
 */
function locate({ place, tags = [] }) {
  log.debug(tags.join());
  return structured({ city: place.city.toUpperCase(), zip: place.zip ?? null });
}
tool(locate, {
  output: { type: 'object', properties: { city: { type: 'string' }, zip: { type: ['integer', 'null'] } }, required: ['city'] },
});

tool({ name: 'show', description: 'Shows several blocks.', parameters: { type: 'object' } },
  () => output(text('one'), json({ b: 1, a: [null, 1.5] }), image('image/png', new Uint8Array([0x89, 0x50]))));

/** Counts on.
 * @param {integer} [by=1] By how much.
 */
function count({ by = 1 }) {
  const number = Number(kv.getText('number') ?? 0) + by;
  kv.set('number', String(number));
  return number;
}
tool(count, { destructive: true });

/** Asks a server.
 * @param {string} url Which one.
 */
async function ask({ url }) {
  const answer = await fetch(`${url}?q=a%20b`);
  return { status: answer.status, text: await answer.text(), token: secrets.present('TOKEN') };
}
tool(ask);

/** Greets, as the environment says. */
function greet(_, context) {
  return `${env('GREETING') ?? 'nothing'} from ${context.tool}`;
}
tool(greet);

/** Fails.
 * @param {'say' | 'arguments' | 'away' | 'crash' | 'cause' | 'reject'} how In which way.
 */
async function fail({ how }) {
  if (how === 'say') throw new ToolError('no such city; check the spelling');
  if (how === 'arguments') throw new BadArguments('/how', 'it is too long');
  if (how === 'away') throw new NotAvailable('closed on Sundays');
  if (how === 'reject') await Promise.reject(new RangeError('too far'));
  try {
    undefined.key;
  } catch (error) {
    if (how === 'cause') throw new Error('no key', { cause: error });
    throw error;
  }
}
tool(fail);

/** Is never available. */
function never() {
  return '';
}
tool(never, { check: () => 'not ready', requiresEnv: ['GREETING'] });
