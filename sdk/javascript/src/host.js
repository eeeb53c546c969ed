// What the SDK asks of the host. In a component it is the host of the contract; on the author's
// machine it is what stands here: a store in memory, lines on stderr, and no network.

import { openMemory } from './memory.js';

const LEVELS = { debug: 'Debug', info: 'Info', warn: 'Warn', error: 'Error' };

/** The stand-ins of the author's machine. */
export function standIns() {
  return {
    isNative: true,
    log: (level, message) => console.error(`${LEVELS[level]}: ${message}`),
    progress: () => {},
    kv: openMemory(),
    secrets: { present: () => false, placeholder: () => undefined },
    fetch: undefined,
    environment: () => Object.entries(globalThis.process?.env ?? {}),
    /** The directories that were granted, as pairs of a directory of WASI and its path. */
    directories: () => [],
    /** The author's `file:line` of a frame, or undefined if the frame is none of the author's. */
    place: undefined,
    /** What the source says about a function: see jsdoc.js. */
    documentation: () => undefined,
  };
}

/** The host in use. Its parts are replaced, by a component's entry or by tests. */
export const host = standIns();
