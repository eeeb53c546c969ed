// Calls tools on the author's machine, in `node --test`: same arguments, no host, no sandbox.

import type { Change, HookedCall, HookedOutcome } from './index.js';

export class CallError extends Error {
  code: 'failed' | 'bad-arguments' | 'not-available';
  /** JSON Pointer to the bad argument. */
  path?: string;
}

export interface Answer {
  content: { tag: 'text' | 'json' | 'image' | 'audio' | 'resource'; val: any }[];
  /** All text and JSON blocks, joined by line breaks. */
  text: string;
  structured: any;
}

/** Calls a tool, by name or function, as the host would; throws a CallError if it gives no output. */
export function call(tool: string | Function, args?: object, context?: object): Promise<Answer>;
/** What the plugin registers, with its schemas as objects. */
export function registration(): any;
/** Calls each tool with the arguments of each of its examples; throws if one does not hold. */
export function checkExamples(): Promise<void>;
/** Runs a tool's check: why it cannot work, or undefined. */
export function check(tool: string | Function): Promise<string | undefined>;
export function describe(tool: string | Function, available: string[]): Promise<Change | undefined>;
export function hook(event: 'request' | 'preCall' | 'postCall' | 'transform', call: Partial<HookedCall> & { tool: string }, outcome?: HookedOutcome): Promise<any>;
/** Answers every request with `responder` while `work` runs. */
export function respondWith<T>(responder: (request: Request) => Response | Promise<Response>, work: () => T | Promise<T>): Promise<T>;
/** Makes secrets of these names present while `work` runs. */
export function withSecrets<T>(names: string[], work: () => T | Promise<T>): Promise<T>;
/** Replaces the environment while `work` runs. */
export function withEnv<T>(variables: Record<string, string>, work: () => T | Promise<T>): Promise<T>;
/** Gives files while `work` runs: texts or bytes by their paths, absolute ones and relative ones. */
export function withFiles<T>(given: Record<string, string | Uint8Array>, work: () => T | Promise<T>): Promise<T>;
/** The lines that `work` logged, as `level: message`. */
export function logged(work: () => unknown): Promise<string[]>;
/** The reports of progress. */
export function progressed(work: () => unknown): Promise<{ done: number; total?: number; message?: string }[]>;
export function clearKv(): void;
/** Forgets every definition and empties the store. */
export function reset(): void;
