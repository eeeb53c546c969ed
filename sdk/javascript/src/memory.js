// The store of the author's machine: like the host's, but in memory.

const KEY_BYTES_MAX = 512;
const VALUE_BYTES_MAX = 1 << 20;
const PAGE = 1_000;

const encoder = new TextEncoder();

/** Returns an empty store with the functions of the contract's `kv`. */
export function openMemory() {
  const values = new Map();
  return {
    get: (key) => values.get(checked(key)),
    set(key, value) {
      values.set(checked(key), checkedValue(value));
    },
    delete: (key) => values.delete(checked(key)),
    swap(key, expected, value) {
      const present = values.get(checked(key));
      if (value !== undefined) checkedValue(value);
      if (!same(present, expected)) return false;
      if (value === undefined) values.delete(key);
      else values.set(key, value);
      return true;
    },
    keys(prefix, after) {
      const fits = (key) => key.startsWith(prefix) && (after === undefined || inOrder(after, key) < 0);
      return [...values.keys()].filter(fits).sort(inOrder).slice(0, PAGE);
    },
    clear: () => values.clear(),
  };
}

/** The order of their bytes, which is not the order of `<` beyond the first 65,536 characters. */
function inOrder(a, b) {
  const [left, right] = [encoder.encode(a), encoder.encode(b)];
  for (let index = 0; index < Math.min(left.length, right.length); index++) {
    if (left[index] !== right[index]) return left[index] - right[index];
  }
  return left.length - right.length;
}

function same(left, right) {
  if (left === undefined || right === undefined) return left === right;
  return left.length === right.length && left.every((byte, index) => byte === right[index]);
}

function checked(key) {
  const bytes = encoder.encode(key).length;
  if (bytes >= 1 && bytes <= KEY_BYTES_MAX) return key;
  throw { tag: 'invalid', val: `key of ${bytes} bytes; allowed are 1 to ${KEY_BYTES_MAX}` };
}

function checkedValue(value) {
  if (value.length <= VALUE_BYTES_MAX) return value;
  throw { tag: 'invalid', val: `value of ${value.length} bytes exceeds ${VALUE_BYTES_MAX}` };
}
