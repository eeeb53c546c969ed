// What a script writes to its console goes to the host's log.

const LEVELS = { debug: 'debug', trace: 'debug', log: 'info', info: 'info', warn: 'warn', error: 'error' };

/** Replaces the global console. */
export function redirect(log) {
  for (const [method, level] of Object.entries(LEVELS)) {
    console[method] = (...values) => log(level, values.map(shown).join(' '));
  }
}

function shown(value) {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return `${value.name}: ${value.message}\n${value.stack}`;
  if (typeof value === 'function') return `[function ${value.name}]`;
  try {
    return JSON.stringify(value, replaced) ?? String(value);
  } catch {
    return String(value);
  }
}

function replaced(_key, value) {
  if (typeof value === 'bigint') return `${value}n`;
  if (value instanceof Map) return Object.fromEntries(value);
  if (value instanceof Set) return [...value];
  return value;
}
