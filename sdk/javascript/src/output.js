// What a tool returns: any value, or content blocks.

/** One block of an answer. Made by `text`, `json`, `image`, `audio` and `resource`. */
class Content {
  constructor(block) {
    this.block = block;
  }
}

/** An answer in the making: blocks in order, and optionally the same as structured JSON. */
class Output {
  constructor(blocks, value) {
    this.blocks = blocks;
    this.value = value;
  }
}

export const text = (value) => new Content({ tag: 'text', val: String(value) });
export const json = (value) => new Content({ tag: 'json', val: written(value) });
export const image = (mediaType, data) => new Content({ tag: 'image', val: blob(mediaType, data) });
export const audio = (mediaType, data) => new Content({ tag: 'audio', val: blob(mediaType, data) });

/** A pointer to a resource, with its text if that is short. */
export function resource(uri, { mediaType, text } = {}) {
  return new Content({ tag: 'resource', val: { uri, mediaType, text } });
}

/** Several blocks, in order; anything that is no block becomes one. */
export function output(...blocks) {
  return new Output(blocks.flatMap(blocksOf));
}

/** A value for programs, matching the tool's `output`; models read `shown`, or the value as JSON. */
export function structured(value, shown) {
  const blocks = shown === undefined ? [json(value)] : [shown].flat().flatMap(blocksOf);
  return new Output(blocks, value);
}

/** Turns what a tool returned into a `tool-output` of the contract. */
export function outputOf(value, hasSchema) {
  const isPlain = !(value instanceof Output || value instanceof Content) && isObject(value);
  const answer = hasSchema && isPlain ? structured(value) : value;
  const structuredValue = answer instanceof Output ? answer.value : undefined;
  return {
    content: blocksOf(answer).map((content) => content.block),
    structured: structuredValue === undefined ? undefined : written(structuredValue),
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

function written(value) {
  const text = JSON.stringify(value);
  if (text !== undefined) return text;
  throw new TypeError(`a ${typeof value} cannot be written as JSON`);
}

function blob(mediaType, data) {
  if (data instanceof Uint8Array) return { mediaType, data };
  if (data instanceof ArrayBuffer) return { mediaType, data: new Uint8Array(data) };
  throw new TypeError('the data of a picture or a sound must be a Uint8Array or an ArrayBuffer');
}
