// What a tool returns: any value, or content blocks.

/** One block of an answer. Made by `text`, `json`, `image`, `audio` and `resource`. */
class Content {
  constructor(block) {
    this.block = block;
  }
}

/** An answer in the making: blocks in order, and optionally the same as structured JSON text. */
class Output {
  constructor(blocks, structured) {
    this.blocks = blocks;
    this.structured = structured;
  }
}

export const text = (value) => new Content({ tag: 'text', val: textOf(value) });
export const json = (value) => new Content({ tag: 'json', val: written(value) });
export const image = (mediaType, data) => new Content({ tag: 'image', val: blob(mediaType, data) });
export const audio = (mediaType, data) => new Content({ tag: 'audio', val: blob(mediaType, data) });

/** A pointer to a resource, with its text if that is short. */
export function resource(uri, { mediaType, text } = {}) {
  for (const [name, value] of Object.entries({ uri: uri ?? null, mediaType, text })) {
    if (value === undefined || typeof value === 'string') continue;
    throw new TypeError(`resource: \`${name}\` is ${String(value)}; write resource('file:///x', { mediaType: 'text/plain', text: '...' })`);
  }
  return new Content({ tag: 'resource', val: { uri, mediaType, text } });
}

/** Several blocks, in order; anything that is no block becomes one. */
export function output(...blocks) {
  return new Output(blocks.flatMap(blocksOf));
}

/** A value for programs, matching the tool's `output`; models read `shown`, or the value as JSON. */
export function structured(value, shown) {
  // Written once: what is iterated gives its values only once.
  const text = written(value);
  const blocks = shown === undefined ? [new Content({ tag: 'json', val: text })] : [shown].flat().flatMap(blocksOf);
  return new Output(blocks, text);
}

/** Turns what a tool returned into a `tool-output` of the contract. */
export function outputOf(value, hasSchema) {
  const isPlain = !(value instanceof Output || value instanceof Content) && isObject(value);
  const answer = hasSchema && isPlain ? structured(value) : value;
  return {
    content: blocksOf(answer).map((content) => content.block),
    structured: answer instanceof Output ? answer.structured : undefined,
    extensions: [],
  };
}

function blocksOf(value) {
  if (value instanceof Output) return value.blocks;
  if (value instanceof Content) return [value];
  if (value === undefined) return [];
  if (typeof value === 'string') return [text(value)];
  if (Array.isArray(value) && value.length > 0 && value.every((one) => one instanceof Content)) {
    return value;
  }
  return [json(value)];
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Returns the JSON text of a value. A Map becomes an object; a Set, and whatever else is iterated, an
 * array; an error its text. What JSON would lose is an error: NaN, Infinity, promises, bigint, bytes.
 */
export function written(value) {
  const quick = quickly(value);
  // What JSON has not, it writes as these; to look at each value costs several times as much.
  const text = quick === undefined || /null|\{\}|\{"0":|"Buffer"/.test(quick) ? JSON.stringify(value, plain) : quick;
  if (text !== undefined) return text;
  throw new TypeError(`a ${typeof value} cannot be written as JSON; return a string, a number, a boolean, null, an array or an object`);
}

function quickly(value) {
  try {
    return JSON.stringify(value);
  } catch {
    // A bigint, or a cycle.
    return undefined;
  }
}

function plain(key, value) {
  const what = key === '' ? 'the value' : `\`${key}\``;
  // Not `value` alone: a Buffer of Node.js has become an object by now. What `toJSON` returned is only there.
  if (isBytes(this[key]) || isBytes(value)) throw bytesAlone(what);
  if (isBody(value)) throw new TypeError(`${what} is a ${value.constructor.name}, which JSON has not; return what it holds: await response.json() or await response.text()`);
  if (value === null && this[key] instanceof Date) throw new TypeError(`${what} is no valid date; return null or a text in its place`);
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new TypeError(`${what} is ${value}, which JSON has not; return null or a text in its place`);
  }
  if (typeof value === 'bigint') {
    throw new TypeError(`${what} is the bigint ${value}n, which JSON has not; return Number(value), or String(value) if it is too large for one`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  if (value instanceof Map) return objectOf(value, what);
  if (value instanceof Error && Object.keys(value).length === 0) return String(value);
  if (typeof value.then === 'function' || Symbol.asyncIterator in value) {
    throw new TypeError(`${what} is still to come, and cannot be written as JSON; wait for it with await (of several: await Promise.all(...))`);
  }
  // A Set, a generator, `map.keys()`; not what has properties to be written.
  const isIterated = Symbol.iterator in value && (typeof value.next === 'function' || Object.keys(value).length === 0);
  return isIterated ? [...value] : value;
}

function objectOf(map, what) {
  const entries = [...map].map(([key, value]) => {
    if (['string', 'number', 'boolean'].includes(typeof key)) return [String(key), value];
    throw new TypeError(`${what} is a Map with the key ${String(key)}, and keys are texts in JSON; return [...map] for an array of pairs`);
  });
  return Object.fromEntries(entries);
}

function textOf(value) {
  if (isBytes(value)) throw bytesAlone('the text');
  return String(value);
}

/** Tells whether a value holds bytes, or numbers packed like them, which JSON has no form for. */
function isBytes(value) {
  const isBlob = typeof Blob === 'function' && value instanceof Blob;
  const isShared = typeof SharedArrayBuffer === 'function' && value instanceof SharedArrayBuffer;
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer || isShared || isBlob;
}

/** Tells whether a value is a message of HTTP or a stream, whose content is still to be read. */
function isBody(value) {
  return ['Response', 'Request', 'ReadableStream'].some((name) => typeof globalThis[name] === 'function' && value instanceof globalThis[name]);
}

function bytesAlone(what) {
  return new TypeError(`${what} holds bytes, which have no meaning by themselves; return image('image/png', bytes) or audio('audio/wav', bytes), new TextDecoder().decode(bytes) where they are text, or Array.from(bytes) for an array of numbers`);
}

function blob(mediaType, data) {
  if (typeof mediaType !== 'string') {
    throw new TypeError(`the media type is ${String(mediaType)}; write image('image/png', bytes)`);
  }
  if (data instanceof Uint8Array) return { mediaType, data };
  if (data instanceof ArrayBuffer) return { mediaType, data: new Uint8Array(data) };
  throw new TypeError('the data of a picture or a sound must be a Uint8Array or an ArrayBuffer');
}
