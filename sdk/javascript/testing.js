// Calls tools on the author's machine, in `node --test`: same arguments, no host, no sandbox.

import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { whereOf } from './src/errors.js';
import { host, standIns } from './src/host.js';
import { documentationOf } from './src/jsdoc.js';
import { openFiles } from './src/memory-files.js';
import { openMemory } from './src/memory.js';
import * as plugin from './src/plugin.js';

const SDK = path.dirname(fileURLToPath(import.meta.url));
const ENDINGS = ['', '.js', '.mjs', '.ts', '/index.js', '/index.mjs', '/index.ts'];

/** Why a call gave no output, as the host would get it. */
export class CallError extends Error {
  name = 'CallError';

  constructor(code, message, path) {
    super(message);
    Object.assign(this, { code, path });
  }
}

/** The author's own file of a frame, or undefined. */
function authorsFile(file) {
  const found = file.startsWith('file:') ? fileURLToPath(file.replace(/\?.*/, '')) : file;
  const isOwn = path.isAbsolute(found) && !isBelow(found, SDK) && !found.includes(`${path.sep}node_modules${path.sep}`);
  return isOwn || isBelow(found, path.join(SDK, 'test')) ? found : undefined;
}

function isBelow(file, folder) {
  return !path.relative(folder, file).startsWith('..');
}

host.place = (file, line) => {
  const found = authorsFile(file);
  return found && `${path.relative(process.cwd(), found)}:${line}`;
};

// In a component the texts of all modules are at hand; here they are read from where `tool` was called.
host.documentation = (name, at) => {
  let main;
  whereOf(at.stack, (file) => (main ??= authorsFile(file)));
  return main && find(name, main, new Set());
};

function find(name, file, seen) {
  if (seen.has(file)) return undefined;
  seen.add(file);
  const text = readFileSync(file, 'utf8');
  const said = documentationOf(path.relative(process.cwd(), file), text)[name];
  if (said) return said;
  for (const [, from] of text.matchAll(/\bfrom\s*['"](\.\.?\/[^'"]+)['"]/g)) {
    const base = path.resolve(path.dirname(file), from);
    const candidates = [...ENDINGS.map((ending) => base + ending), base.replace(/\.js$/, '.ts')];
    const found = candidates.find((one) => existsSync(one) && statSync(one).isFile());
    const other = found && find(name, found, seen);
    if (other) return other;
  }
  return undefined;
}

/** Calls a tool as the host would; throws a CallError if it gives no output. */
export async function call(tool, args = {}, context = {}) {
  const name = typeof tool === 'function' ? nameOf(tool) : tool;
  try {
    const given = { remainingMs: 60_000, extensions: [], ...context };
    return answer(await plugin.call(name, JSON.stringify(args), given));
  } catch (error) {
    if (typeof error?.tag !== 'string') throw error;
    const { message, path: at } = error.tag === 'bad-arguments' ? error.val : { message: error.val };
    throw new CallError(error.tag, message, at);
  }
}

function nameOf(work) {
  for (const [name, entry] of plugin.definitions.tools) if (entry.work === work) return name;
  throw new Error(`\`${work.name}\` is no tool; pass a function that was given to tool(...), or a name`);
}

function answer({ content, structured }) {
  const texts = content.filter(({ tag }) => tag === 'text' || tag === 'json').map(({ val }) => val);
  return {
    content,
    text: texts.join('\n'),
    structured: structured === undefined ? undefined : JSON.parse(structured),
  };
}

/** What the plugin registers, with its schemas as objects. */
export function registration() {
  const found = plugin.registration('plugin');
  const parsed = (text) => (text === undefined ? undefined : JSON.parse(text));
  return {
    ...found,
    tools: found.tools.map((tool) => ({ ...tool, parameters: parsed(tool.parameters), output: parsed(tool.output) })),
    needs: found.needs.map((need) => ({ ...need, value: parsed(need.value) })),
  };
}

/** Calls a tool with the arguments of each of its examples, and throws if one does not hold. */
export async function checkExamples() {
  for (const tool of plugin.registration('plugin').tools) {
    for (const { arguments: args, expected } of tool.examples) {
      const { text } = await call(tool.name, JSON.parse(args));
      if (expected !== undefined && !text.includes(expected)) {
        throw new Error(`${tool.name}: the output of the example ${args} has no ${JSON.stringify(expected)}: ${text}`);
      }
    }
  }
}

/** Runs a tool's check: why it cannot work, or undefined. */
export const check = (tool) => plugin.check(typeof tool === 'function' ? nameOf(tool) : tool);

/** Runs a tool's `describe`. */
export async function describe(tool, available) {
  const text = await plugin.describe(typeof tool === 'function' ? nameOf(tool) : tool, available);
  return text === undefined ? undefined : JSON.parse(text);
}

/** Runs a hook: `request`, `preCall`, `postCall` or `transform`. */
export function hook(event, call, outcome) {
  return plugin.hook(event, { source: 'plugin:other', ...call, arguments: JSON.stringify(call.arguments ?? {}) }, outcome);
}

/** Answers every request with `responder` while `work` runs, and returns what that returns. */
export async function respondWith(responder, work) {
  const before = [host.fetch, globalThis.fetch];
  const answer = async (input, init) => responder(new Request(input, init));
  [host.fetch, globalThis.fetch] = [answer, answer];
  try {
    return await work();
  } finally {
    [host.fetch, globalThis.fetch] = before;
  }
}

/** Makes secrets of these names present while `work` runs. */
export function withSecrets(names, work) {
  const present = (name) => names.includes(name);
  const placeholder = (name) => (present(name) ? `{{secret:${name}}}` : undefined);
  return having({ secrets: { present, placeholder } }, work);
}

/** Replaces the environment while `work` runs. */
export function withEnv(variables, work) {
  return having({ environment: () => Object.entries(variables) }, work);
}

/** Gives files while `work` runs: texts or bytes by their paths. What it writes is gone afterwards. */
export function withFiles(given, work) {
  const directories = openFiles(given);
  return having({ directories: () => directories }, work);
}

/** Runs `work` and returns the lines that it logged, as `level: message`. */
export async function logged(work) {
  const lines = [];
  await having({ log: (level, message) => lines.push(`${level}: ${message}`) }, work);
  return lines;
}

/** Runs `work` and returns the reports of progress, as `{ done, total, message }`. */
export async function progressed(work) {
  const reports = [];
  await having({ progress: (done, total, message) => reports.push({ done, total, message }) }, work);
  return reports;
}

async function having(parts, work) {
  const before = Object.fromEntries(Object.keys(parts).map((name) => [name, host[name]]));
  Object.assign(host, parts);
  try {
    return await work();
  } finally {
    Object.assign(host, before);
  }
}

/** Empties the store. */
export function clearKv() {
  host.kv = openMemory();
}

/** Forgets every definition and empties the store: for tests that define plugins themselves. */
export function reset() {
  plugin.forget();
  clearKv();
  host.fetch = standIns().fetch;
}
