// Lines for the host's log, which a model never sees, and word of how far a call has come.

import { host } from './host.js';

const write = (level) => (message) => host.log(level, String(message));

export const log = {
  debug: write('debug'),
  info: write('info'),
  warn: write('warn'),
  error: write('error'),
};

/** Reports progress to whoever waits: `done` of `total`, in units of your choice. */
export function progress(done, total, message) {
  for (const [name, value] of Object.entries({ done, total: total ?? 0 })) {
    if (typeof value !== 'number') throw new TypeError(`progress: \`${name}\` is ${JSON.stringify(value) ?? typeof value}; it takes a number`);
  }
  host.progress(done, total ?? undefined, message === undefined ? undefined : String(message));
}
