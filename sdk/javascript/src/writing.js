// Writes values as JSON. What JSON.stringify drops, or writes as `null` or `{}`, is written or refused.

import { describeError } from './errors.js';

/**
 * Returns the JSON text of a value.
 *
 * As JSON.stringify: `toJSON` is called, a property that is `undefined` is left out, and such an element
 * of an array is null. Unlike it, a Map becomes an object; a Set, and whatever else is iterated, an array;
 * an error its text. All else that JSON has no form for is a TypeError that names the place.
 *
 * @param what how an error calls the value itself; places within follow it, as in `result.rows[3]`
 */
export function written(value, what = 'the value') {
  const place = { what, keys: [] };
  const found = plain(value, '', place, []);
  if (found === undefined) throw refused(place, 'is undefined, which JSON has no form for; return null in its place');
  return JSON.stringify(found);
}

/** Returns a text as it is, if it is Unicode: half of a surrogate pair would reach nobody. */
export function wellFormed(text, what) {
  return checkedText(text, { what, keys: [] });
}

/** Returns what JSON.stringify is given in the place of a value; the value itself where it loses nothing. */
function plain(given, key, place, within) {
  let value = given;
  if (typeof value === 'object' && value !== null) {
    // A Buffer has a `toJSON` of its own, which hides that it is bytes.
    refuseBytes(value, place);
    if (value instanceof Date && Number.isNaN(value.getTime())) {
      throw refused(place, 'is not a valid date; return null or a string in its place');
    }
    if (typeof value.toJSON === 'function') {
      value = value.toJSON(key);
      if (typeof value === 'object' && value !== null) refuseBytes(value, place);
    }
  }
  switch (typeof value) {
    case 'string':
      return checkedText(value, place);
    case 'number':
      if (Number.isFinite(value)) return value;
      throw refused(place, `is ${value}, which JSON has no form for; return null or a string in its place`);
    case 'bigint':
      throw refused(place, `is the bigint ${value}n, which JSON has no form for; return Number(value), or String(value) if it is too large for one`);
    case 'function':
      throw refused(place, `is a function${value.name ? ` (${value.name})` : ''}, which JSON has no form for; leave it out, or return what it returns`);
    case 'symbol':
      throw refused(place, `is the symbol ${String(value)}, which JSON has no form for; return its description`);
    case 'object':
      return value === null ? null : plainObject(value, key, place, within);
    default:
      return value;
  }
}

function plainObject(value, key, place, within) {
  if (within.includes(value)) throw refused(place, 'contains itself, which JSON has no form for; return a part of it');
  within.push(value);
  const found = Array.isArray(value) ? plainArray(value, place, within) : plainContent(value, key, place, within);
  within.pop();
  return found;
}

function plainArray(array, place, within) {
  let copy;
  for (let index = 0; index < array.length; index++) {
    place.keys.push(index);
    const found = plain(array[index], String(index), place, within);
    place.keys.pop();
    if (found !== array[index]) (copy ??= [...array])[index] = found;
  }
  return copy ?? array;
}

function plainContent(value, key, place, within) {
  const prototype = Object.getPrototypeOf(value);
  const keys = Object.keys(value);
  if (Symbol.iterator in value && !(value instanceof String)) {
    if (value instanceof Map) return plainProperties(objectOf(value, place), place, within);
    // A Set, a generator, `map.keys()`; not what has properties to be written.
    if (typeof value.next === 'function' || keys.length === 0) return plainArray([...value], place, within);
  }
  if (prototype !== Object.prototype && prototype !== null) {
    if (value instanceof String || value instanceof Number || value instanceof Boolean || value instanceof BigInt) {
      return plain(value.valueOf(), key, place, within);
    }
    if (value instanceof Error) {
      if (keys.length === 0) return plain(describeError(value), key, place, within);
      return plainProperties({ name: value.name, message: value.message, ...value }, place, within);
    }
    refuseKind(value, keys, place);
  }
  if (typeof value.then === 'function' || Symbol.asyncIterator in value) {
    throw refused(place, 'is still to come, and cannot be written as JSON; wait for it with await (of several: await Promise.all(...))');
  }
  // Symbols are names that no other program knows; to have nothing else is to lose everything.
  if (keys.length === 0 && Object.getOwnPropertySymbols(value).length > 0) {
    throw refused(place, 'is an object whose only names are symbols, which JSON has no form for; name its properties with strings');
  }
  return plainProperties(value, place, within);
}

function plainProperties(object, place, within) {
  let changed;
  for (const key of Object.keys(object)) {
    place.keys.push(key);
    checkedText(key, place, 'has a name that');
    const value = object[key];
    const found = plain(value, key, place, within);
    place.keys.pop();
    if (found !== value) (changed ??= new Map()).set(key, found);
  }
  if (changed === undefined) return object;
  // Not by assignment: a property may be called `__proto__`.
  return Object.fromEntries(Object.keys(object).map((key) => [key, changed.has(key) ? changed.get(key) : object[key]]));
}

function objectOf(map, place) {
  const entries = new Map();
  for (const [key, value] of map) {
    const name = String(key);
    if (!['string', 'number', 'boolean'].includes(typeof key)) {
      throw refused(place, `is a Map with the key ${name}, and names are strings in JSON; return [...map] for an array of pairs`);
    }
    if (entries.has(name)) {
      throw refused(place, `is a Map whose keys ${JSON.stringify(name)} and ${name} are one name in JSON; return [...map] for an array of pairs`);
    }
    entries.set(name, value);
  }
  return Object.fromEntries(entries);
}

/** Refuses what is not made of properties, or has all it knows in places that JSON does not reach. */
function refuseKind(value, keys, place) {
  const kind = value.constructor?.name || Object.prototype.toString.call(value).slice(8, -1);
  if (value instanceof RegExp) throw refused(place, 'is a RegExp, which JSON has no form for; return its text: String(value)');
  if (isBody(value)) {
    throw refused(place, `is a ${kind}, which JSON has no form for; return what it holds: await response.json() or await response.text()`);
  }
  if (keys.length > 0 || typeof value.then === 'function' || Symbol.asyncIterator in value) return;
  throw refused(place, `is a ${kind} without public fields, so JSON would have nothing of it; return an object of what it holds, or give it a toJSON method`);
}

function checkedText(text, place, verb = 'is text that') {
  if (text.isWellFormed()) return text;
  const characters = [...text];
  const at = characters.findIndex((one) => !one.isWellFormed());
  const half = characters[at].charCodeAt(0).toString(16).toUpperCase();
  throw refused(place, `${verb} has half of a surrogate pair (U+${half}) as character ${at + 1}, which is not valid Unicode; return value.toWellFormed(), or cut the text between characters: [...text].slice(0, 9).join('')`);
}

/** Refuses bytes, or numbers packed like them, which JSON has no form for. */
function refuseBytes(value, place) {
  const isBlob = typeof Blob === 'function' && value instanceof Blob;
  const isShared = typeof SharedArrayBuffer === 'function' && value instanceof SharedArrayBuffer;
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer || isShared || isBlob) throw bytesAlone(shown(place));
}

/** Tells whether a value is a message of HTTP or a stream, whose content is still to be read. */
function isBody(value) {
  return ['Response', 'Request', 'ReadableStream'].some((name) => typeof globalThis[name] === 'function' && value instanceof globalThis[name]);
}

/** The text of a value that is to be text. */
export function textOf(value, what) {
  if (typeof value === 'object' && value !== null) refuseBytes(value, { what, keys: [] });
  return wellFormed(String(value), what);
}

function bytesAlone(what) {
  return new TypeError(`${what} holds bytes, which have no meaning by themselves; return image('image/png', bytes) or audio('audio/wav', bytes), new TextDecoder().decode(bytes) where they are text, or Array.from(bytes) for an array of numbers`);
}

function refused(place, problem) {
  return new TypeError(`${shown(place)} ${problem}`);
}

/** The place as one would write it in JavaScript: `result.rows[3]["a b"]`. */
function shown({ what, keys }) {
  const steps = keys.map((key) => {
    if (typeof key === 'string' && /^[A-Za-z_$][\w$]*$/.test(key)) return `.${key}`;
    return `[${JSON.stringify(key)}]`;
  });
  // What is far down is named by its last steps.
  return steps.length > 12 ? `${what}...${steps.slice(-12).join('')}` : `${what}${steps.join('')}`;
}
