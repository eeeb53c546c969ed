// A small store of the plugin's own, which outlives its calls.

import { host } from './host.js';
import { wellFormed, written } from './writing.js';

const decoder = new TextDecoder('utf-8', { fatal: true });
const encoder = new TextEncoder();

/** Why an operation was not done; `code` is `not-granted`, `invalid`, `full`, `unavailable` or `malformed`. */
export class KvError extends Error {
  name = 'KvError';

  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

function named(key) {
  if (typeof key === 'string') return key;
  throw new KvError('invalid', `a key is a string, and this one is ${JSON.stringify(key) ?? typeof key}`);
}

// The host's own error: `{ tag, val }`, which the bindings wrap into `payload`.
function asked(work) {
  try {
    return work();
  } catch (error) {
    const cause = error?.payload ?? error;
    if (typeof cause?.tag === 'string') throw new KvError(cause.tag, cause.val);
    throw error;
  }
}

function bytesOf(value, key) {
  if (typeof value === 'string') return encoder.encode(unicode(value, key));
  if (value instanceof Uint8Array) return value;
  const message = `the value for \`${key}\` must be a string or a Uint8Array; for others use setJson`;
  throw new KvError('malformed', message);
}

function unicode(value, key) {
  try {
    return wellFormed(value, `the value for \`${key}\``);
  } catch (error) {
    throw new KvError('malformed', error.message);
  }
}

/** The text of a value, or undefined. */
function textOf(value, key) {
  if (value === undefined) return undefined;
  try {
    return decoder.decode(value);
  } catch {
    throw new KvError('malformed', `the value of \`${key}\` is no text`);
  }
}

export const kv = {
  get: (key) => asked(() => host.kv.get(named(key))),
  getText: (key) => textOf(kv.get(key), key),
  getJson(key) {
    const text = kv.getText(key);
    try {
      return text === undefined ? undefined : JSON.parse(text);
    } catch (error) {
      throw new KvError('malformed', `the value of \`${key}\` is no JSON: ${error.message}`);
    }
  },
  set: (key, value) => asked(() => host.kv.set(named(key), bytesOf(value, key))),
  setJson(key, value) {
    let text;
    try {
      text = written(value);
    } catch (error) {
      throw new KvError('malformed', `the value for \`${key}\` cannot be written as JSON: ${error.message}`);
    }
    kv.set(key, text);
  },
  delete: (key) => asked(() => host.kv.delete(named(key))),
  swap(key, expected, value) {
    const bytes = (one) => (one === undefined ? undefined : bytesOf(one, key));
    return asked(() => host.kv.swap(named(key), bytes(expected), bytes(value)));
  },
  *keys(prefix = '') {
    for (let page, last; page === undefined || page.length > 0; last = page.at(-1)) {
      page = asked(() => host.kv.keys(named(prefix), last));
      yield* page;
    }
  },
};
