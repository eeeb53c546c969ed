// Files in the directories that were granted, with errors that say which path it was and who can help.

import { host } from './host.js';

const CHUNK = 1n << 20n;
const KINDS = { 'regular-file': 'file', directory: 'directory', 'symbolic-link': 'link' };
const FORBIDDEN = ['not-permitted', 'access', 'read-only'];
// Through these the host hears every path that is in no directory of its own name: it knows the working directory.
const NAMES = ['/', '.'];

const decoder = new TextDecoder('utf-8', { fatal: true });
const encoder = new TextEncoder();

/** Why something was not done; `code` is WASI's, such as `no-entry`, or `not-granted`, `malformed` or `invalid`. */
export class FileError extends Error {
  name = 'FileError';

  constructor(code, path, message) {
    super(message);
    Object.assign(this, { code, path });
  }
}

export const files = {
  readBytes: (path) => opened(path, 'read', {}, { read: true }, (file) => allOf(file)),
  readText(path) {
    const bytes = files.readBytes(path);
    try {
      return decoder.decode(bytes);
    } catch {
      throw new FileError('malformed', path, `\`${path}\` is no UTF-8 text; read it with files.readBytes`);
    }
  },
  writeBytes(path, bytes) {
    if (!(bytes instanceof Uint8Array)) {
      throw new FileError('malformed', path, `what is written to \`${path}\` must be a Uint8Array; a string is written with files.writeText`);
    }
    opened(path, 'write', { create: true, truncate: true }, { write: true }, (file) => {
      for (let at = 0; at < bytes.length; ) at += Number(file.write(bytes.subarray(at, at + Number(CHUNK)), BigInt(at)));
    });
  },
  writeText(path, text) {
    if (typeof text !== 'string') {
      throw new FileError('malformed', path, `what is written to \`${path}\` must be a string; bytes are written with files.writeBytes`);
    }
    files.writeBytes(path, encoder.encode(text));
  },
  list: (path) => opened(path, 'list', { directory: true }, { read: true }, (directory) => {
    const found = [];
    const entries = directory.readDirectory();
    for (let entry = entries.readDirectoryEntry(); entry; entry = entries.readDirectoryEntry()) {
      found.push({ name: entry.name, kind: KINDS[entry.type] ?? 'other' });
    }
    release(entries);
    return found.sort((left, right) => (left.name < right.name ? -1 : 1));
  }),
};

/** Opens a path, and returns what `work` makes of it. */
function opened(path, purpose, how, rights, work) {
  const { directory, below, isName } = located(path, purpose);
  let descriptor;
  try {
    descriptor = directory.openAt({ symlinkFollow: true }, below, how, rights);
    return work(descriptor);
  } catch (error) {
    // The host's own error: a code, which the bindings wrap into `payload`.
    const said = error?.payload ?? error;
    const code = said === 'bad-descriptor' && purpose === 'read' ? 'is-directory' : said === 'not-permitted' && isName ? 'not-granted' : said;
    throw typeof code === 'string' ? new FileError(code, path, explained(code, path, purpose)) : error;
  } finally {
    if (descriptor) release(descriptor);
  }
}

/** The granted directory that holds a path, and the path below it. */
function located(path, purpose) {
  if (typeof path !== 'string' || path === '' || path.includes('\0')) {
    throw new FileError('invalid', path, `a path is a text such as 'data/a.txt', and this one is ${JSON.stringify(path)}`);
  }
  const wanted = stepsOf(path);
  let best;
  const directories = host.directories();
  for (const [directory, at] of directories) {
    const steps = stepsOf(at);
    const below = wanted.steps.slice(steps.steps.length);
    const isName = !host.isNative && NAMES.includes(at);
    const isWithin = steps.isAbsolute === wanted.isAbsolute && steps.steps.every((step, index) => step === wanted.steps[index]) && (isName || below[0] !== '..');
    // Of several at one path the last counts, as in C and Python.
    if (isWithin && steps.steps.length >= (best?.length ?? 0)) best = { directory, below: below.join('/') || '.', length: steps.steps.length, isName };
  }
  if (best) return best;
  throw new FileError('not-granted', path, explained('not-granted', path, purpose));
}

/** The directories that were granted, for people. */
function granted() {
  const all = host.directories().map(([, at]) => at).filter((at) => host.isNative || !NAMES.includes(at));
  return all.map((at) => `\`${at}\``).join(', ') || 'none';
}

/** The names on a path, without `.`, and without `..` as far as there is something before it. */
function stepsOf(path) {
  const isAbsolute = path.startsWith('/');
  const steps = [];
  for (const step of path.split('/')) {
    if (step === '' || step === '.') continue;
    if (step !== '..' || (steps.length === 0 && !isAbsolute) || steps.at(-1) === '..') steps.push(step);
    else steps.pop();
  }
  return { isAbsolute, steps };
}

function allOf(file) {
  const chunks = [];
  let size = 0;
  for (let isEnd = false; !isEnd; ) {
    const [chunk, last] = file.read(CHUNK, BigInt(size));
    chunks.push(chunk);
    size += chunk.length;
    isEnd = last || chunk.length === 0;
  }
  if (chunks.length === 1) return chunks[0];
  const all = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

function explained(code, path, purpose) {
  if (code === 'no-entry') return `there is no ${purpose === 'list' ? 'directory' : 'file'} \`${path}\``;
  if (code === 'not-directory') return `\`${path}\` is no directory, or lies in what is none`;
  if (code === 'is-directory') return `\`${path}\` is a directory; files.list says what is in it`;
  if (code === 'not-granted') return `\`${path}\` is in no directory that was granted for that (${granted()}): ${grant(purpose)}`;
  if (FORBIDDEN.includes(code)) return `the host does not let this plugin ${purpose} \`${path}\`: ${grant(purpose)}`;
  return `\`${path}\` cannot be ${{ read: 'read', write: 'written', list: 'listed' }[purpose]}: ${code}`;
}

/** Who can help. The host alone knows which directory would do, and says so beside this. */
function grant(purpose) {
  if (host.isNative) return 'a test gives files with withFiles of toolhost-sdk/testing';
  return `a plugin asks for directories with need.${purpose === 'write' ? 'writeDirectory' : 'readDirectory'}('*'), and the operator grants them`;
}

/** Gives a handle back; a call may open many. */
function release(handle) {
  handle[Symbol.dispose ?? Symbol.for('dispose')]?.();
}
