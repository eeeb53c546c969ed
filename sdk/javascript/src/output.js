// What a tool returns: any value, or content blocks.

import { textOf, wellFormed, written } from './writing.js';

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

export const text = (value) => new Content({ tag: 'text', val: textOf(value, 'the text') });
export const json = (value) => new Content({ tag: 'json', val: written(value, 'the value') });
export const image = (mediaType, data) => new Content({ tag: 'image', val: blob(mediaType, data) });
export const audio = (mediaType, data) => new Content({ tag: 'audio', val: blob(mediaType, data) });

/** A pointer to a resource, with its text if that is short. */
export function resource(uri, { mediaType, text } = {}) {
  for (const [name, value] of Object.entries({ uri: uri ?? null, mediaType, text })) {
    if (value === undefined) continue;
    if (typeof value === 'string') {
      wellFormed(value, `resource: \`${name}\``);
      continue;
    }
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
  const text = written(value, 'result');
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
  if (typeof value === 'string') return [new Content({ tag: 'text', val: wellFormed(value, 'result') })];
  if (Array.isArray(value) && value.length > 0 && value.every((one) => one instanceof Content)) {
    return value;
  }
  return [new Content({ tag: 'json', val: written(value, 'result') })];
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function blob(mediaType, data) {
  if (typeof mediaType !== 'string') {
    throw new TypeError(`the media type is ${String(mediaType)}; write image('image/png', bytes)`);
  }
  if (data instanceof Uint8Array) return { mediaType, data };
  if (data instanceof ArrayBuffer) return { mediaType, data: new Uint8Array(data) };
  throw new TypeError('the data of a picture or a sound must be a Uint8Array or an ArrayBuffer');
}
