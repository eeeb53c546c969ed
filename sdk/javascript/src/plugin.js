// The author's definitions, and what the contract's functions make of them.

import { BadArguments, DefinitionError, NotAvailable, ToolError, describeError, toolErrorOf, whereOf } from './errors.js';
import { problemOf } from './check.js';
import { host } from './host.js';
import { parametersOf } from './jsdoc.js';
import { outputOf } from './output.js';
import { definedText, isStandard, pointer, schemaOf, withDefaults } from './schema.js';
import { wellFormed, written } from './writing.js';

const KEYS = [
  'name', 'toolset', 'description', 'parameters', 'output', 'emoji', 'requiresEnv',
  'maxResultSizeChars', 'overrides', 'readOnly', 'destructive', 'idempotent', 'openWorld',
  'check', 'describe', 'examples', 'extensions',
];
const TEXT = [(value) => typeof value === 'string', 'a string'];
const FLAG = [(value) => typeof value === 'boolean', 'true or false'];
const WORK = [(value) => typeof value === 'function', 'a function'];
// What is of another type would stop the whole component when it is registered.
const TYPES = {
  name: TEXT, toolset: TEXT, description: TEXT, emoji: TEXT, check: WORK, describe: WORK,
  overrides: FLAG, readOnly: FLAG, destructive: FLAG, idempotent: FLAG, openWorld: FLAG,
  requiresEnv: [(value) => [value].flat().every((one) => typeof one === 'string'), "a name or an array of names, as in ['TOKEN']"],
  maxResultSizeChars: [(value) => Number.isInteger(value) && value >= 0 && value < 2 ** 32, 'a whole number below 4294967296'],
  examples: [Array.isArray, 'an array, as in [{ arguments: { ... } }]'],
};
const EVENTS = { request: 'request', preCall: 'pre-call', postCall: 'post-call', transform: 'transform' };

/** What this plugin is made of. A component has one plugin, and a test imports one. */
export const definitions = empty();

function empty() {
  return { name: undefined, version: undefined, toolset: undefined, extensions: [], tools: new Map(), needs: [], hooks: [] };
}

/** Forgets every definition: for tests that define plugins one after the other. */
export function forget() {
  Object.assign(definitions, empty());
}

/** Sets the plugin's name and version, and the toolset of tools that name none. */
export function plugin(name, version = '0.0.0', { toolset, extensions } = {}) {
  if (typeof name !== 'string' || typeof version !== 'string' || !['string', 'undefined'].includes(typeof toolset)) {
    throw new DefinitionError("plugin takes a name and a version, and perhaps a toolset, as strings: plugin('words', '1.0.0', { toolset: 'text' })");
  }
  Object.assign(definitions, { name, version, toolset, extensions: pairs(extensions) });
}

/** Makes a function a tool, and returns the function: tool(definition, work), or tool(work, definition). */
export function tool(first, second) {
  const [work, definition] = typeof first === 'function' ? [first, second ?? {}] : [second, first];
  if (typeof work !== 'function' || typeof definition !== 'object' || definition === null) {
    throw new DefinitionError('tool takes a definition and a function: tool({ name, description, parameters }, (arguments) => ...)');
  }
  for (const key of Object.keys(definition)) {
    if (!KEYS.includes(key)) throw new DefinitionError(`tool: unknown key \`${key}\`; known are ${KEYS.join(', ')}`);
    const value = definition[key];
    const [fits, allowed] = TYPES[key] ?? [];
    if (fits && value !== undefined && value !== null && !fits(value)) {
      throw new DefinitionError(`tool: \`${key}\` is ${JSON.stringify(value) ?? typeof value}; it takes ${allowed}`);
    }
  }
  const name = definition.name ?? snake(work.name);
  if (!name) throw new DefinitionError('tool: a function without a name needs `name` in its definition');
  if (definitions.tools.has(name)) throw new DefinitionError(`this plugin defines the tool \`${name}\` twice`);
  definitions.tools.set(name, { name, work, definition, at: new Error() });
  return work;
}

/** Asks for a kind of authority, with its value as the contract defines it; `need.http` and so on are shorter. */
export function need(kind, value = {}, { tools = [], reason = '' } = {}) {
  for (const [what, text] of Object.entries({ kind, reason })) {
    if (typeof text !== 'string') throw new DefinitionError(`need: \`${what}\` is ${JSON.stringify(text)}; it takes a string`);
  }
  definitions.needs.push({
    kind,
    value: definedText(value, `need: the value of \`${kind}\``),
    tools: [tools].flat().map((one) => (typeof one === 'function' ? nameOf(one) : one)),
    reason,
  });
}

need.http = (hosts, options) => need('http', { hosts: [hosts].flat() }, options);
need.env = (names, options) => need('env', { names: [names].flat() }, options);
need.kv = (options) => need('kv', {}, options);
need.readDirectory = (path, options) => need('dirs', { path, access: 'ro' }, options);
need.writeDirectory = (path, options) => need('dirs', { path, access: 'rw' }, options);
need.secret = (name, { hosts, header, query }, options) => {
  if ((header === undefined) === (query === undefined)) {
    throw new DefinitionError("need.secret takes one slot: { hosts: [...], header: 'authorization' } or { hosts: [...], query: 'appid' }");
  }
  need('secrets', { name, hosts: [hosts].flat(), ...(header ? { header } : { query }) }, options);
};
need.hooks = (events, tools, options) => {
  need('hooks', { events: [events].flat(), tools: [tools].flat() }, options);
};

/** Sees, changes, stops or rewrites the calls of other plugins' tools. What is given later is asked later. */
export function hooks(given) {
  for (const [event, work] of Object.entries(given)) {
    if (!(event in EVENTS) || typeof work !== 'function') {
      throw new DefinitionError(`hooks takes functions named ${Object.keys(EVENTS).join(', ')}; \`${event}\` is none`);
    }
  }
  // One in place of another would take a guard away.
  definitions.hooks = [...definitions.hooks, given];
}

/** Builds the registration; throws a DefinitionError that begins with the author's file and line. */
export function registration(defaultName) {
  if (definitions.tools.size === 0 && definitions.hooks.length === 0) {
    throw new DefinitionError(`${defaultName}: the plugin defines nothing; make a function a tool with tool(...)`);
  }
  const name = definitions.name ?? defaultName;
  const toolset = definitions.toolset ?? toolsetOf(name);
  return {
    name,
    version: definitions.version ?? '0.0.0',
    tools: [...definitions.tools.values()].map((entry) => {
      try {
        return registered(entry, toolset);
      } catch (error) {
        if (!(error instanceof DefinitionError)) throw error;
        const where = error.where ?? whereOf(entry.at.stack, host.place);
        throw new DefinitionError((where ? `${where}: ` : '') + error.message);
      }
    }),
    needs: definitions.needs,
    extensions: definitions.extensions,
  };
}

function registered(entry, toolset) {
  const { name, work, definition } = entry;
  const flag = (key) => definition[key] === undefined ? undefined : Boolean(definition[key]);
  return {
    name,
    toolset: definition.toolset ?? toolset,
    description: definition.description ?? documentation(entry)?.description ?? '',
    parameters: JSON.stringify(parameters(entry)),
    output: definition.output && JSON.stringify(schemaOf(definition.output, `${name}: output`)),
    emoji: definition.emoji,
    requiresEnv: [definition.requiresEnv ?? []].flat(),
    maxResultSizeChars: definition.maxResultSizeChars,
    overrides: Boolean(definition.overrides),
    hasCheck: definition.check !== undefined,
    hasDynamicSchema: definition.describe !== undefined,
    annotations: {
      readOnly: flag('readOnly'), destructive: flag('destructive'),
      idempotent: flag('idempotent'), openWorld: flag('openWorld'),
    },
    examples: (definition.examples ?? []).map((one) => example(name, one)),
    extensions: [...pairs(definition.extensions), ...sharedCheck(definition.check)],
  };
}

/** The JSON Schema of a tool's arguments: as given, or as the source of the function documents it. */
function parameters(entry) {
  entry.parameters ??= entry.definition.parameters === undefined
    ? parametersOf(entry.name, entry.work, documentation(entry))
    : schemaOf(entry.definition.parameters, `${entry.name}: parameters`);
  return entry.parameters;
}

function documentation(entry) {
  entry.documentation ??= host.documentation(entry.work.name, entry.at);
  return entry.documentation;
}

function example(tool, given) {
  const [args, expected] = Array.isArray(given) ? given : [given?.arguments, given?.expected];
  if (typeof args !== 'object' || args === null || !['string', 'undefined'].includes(typeof expected)) {
    throw new DefinitionError(`${tool}: an example is { arguments: { ... }, expected: 'text of the output' }, or without \`expected\``);
  }
  return { arguments: definedText(args, `${tool}: the example`), expected };
}

/** Tools with one check function share its answer, so that it runs once for all of them. */
function sharedCheck(check) {
  if (check === undefined) return [];
  const tools = [...definitions.tools.values()];
  const first = tools.find((entry) => entry.definition.check === check);
  return [['check', JSON.stringify(first?.name ?? check.name)]];
}

/** Runs one call; the error of the contract is thrown. */
export async function call(name, args, context) {
  try {
    const entry = found(name);
    const given = await accepted(entry, parsed(args));
    const value = await entry.work(given, { ...context, tool: name });
    return outputOf(value, entry.definition.output !== undefined);
  } catch (error) {
    throw toolErrorOf(error, host.place);
  }
}

function found(name) {
  const entry = definitions.tools.get(name);
  if (entry) return entry;
  throw new ToolError(`this plugin has no tool \`${name}\``);
}

function parsed(args) {
  try {
    return JSON.parse(args);
  } catch (error) {
    throw new BadArguments('', `the arguments are no JSON: ${error.message}`);
  }
}

/** The arguments as the function gets them: checked, with defaults. */
async function accepted(entry, given) {
  const { parameters: schema } = entry.definition;
  // A host has checked them before.
  const problem = host.isNative && problemOf(parameters(entry), given);
  if (problem) throw new BadArguments(problem.path, problem.message);
  if (schema === undefined) return given;
  if (!isStandard(schema)) return withDefaults(schema, given);
  const checked = await schema['~standard'].validate(given);
  if (!checked.issues) return checked.value;
  const issues = checked.issues.map((issue) => {
    const path = pointer((issue.path ?? []).map((part) => part?.key ?? part));
    return { path, text: `${path || '/'}: ${issue.message}` };
  });
  throw new BadArguments(issues[0].path, issues.map((issue) => issue.text).join('; '));
}

/** Runs the check of one tool: returns why it cannot work, or undefined. */
export async function check(name) {
  const work = definitions.tools.get(name)?.definition.check;
  if (!work) return undefined;
  try {
    const answer = await work(name);
    if (answer === false) return `\`${name}\` cannot work at present`;
    return typeof answer === 'string' ? answer : undefined;
  } catch (error) {
    return reason(error);
  }
}

/** What changes in a tool's definition when the named tools are visible: JSON text, or undefined. */
export async function describe(name, available) {
  const answer = await definitions.tools.get(name)?.definition.describe?.(available);
  if (answer === undefined || answer === null) return undefined;
  const { description, parameters } = answer;
  const schema = parameters === undefined ? undefined : schemaOf(parameters, `${name}: parameters`);
  return JSON.stringify({ description, parameters: schema });
}

/** Runs the hooks of one event and returns what the contract wants of them; errors are thrown as text. */
export async function hook(event, hooked, outcome) {
  const works = definitions.hooks.flatMap((given) => given[event] ?? []);
  const ended = outcome && { ...outcome, durationMs: Number(outcome.durationMs) };
  try {
    return await ANSWERS[event](works, hooked, ended);
  } catch (error) {
    throw reason(error);
  }
}

const read = (hooked) => ({ ...hooked, arguments: JSON.parse(hooked.arguments) });

const ANSWERS = {
  /** Each sees the arguments that the one before returned. */
  async request(works, hooked) {
    let changed;
    for (const work of works) {
      const answer = textOf(await work(read({ ...hooked, arguments: changed ?? hooked.arguments })));
      changed = answer ?? changed;
    }
    return changed;
  },
  /** A block counts more than a question, and that more than nothing. */
  async preCall(works, hooked) {
    let question;
    for (const work of works) {
      const answer = decision(await work(read(hooked)));
      if (answer.tag === 'block') return answer;
      if (answer.tag === 'ask') question ??= answer;
    }
    return question ?? { tag: 'allow' };
  },
  async postCall(works, hooked, ended) {
    for (const work of works) await work(read(hooked), ended);
  },
  /** The first text counts. */
  async transform(works, hooked, ended) {
    for (const work of works) {
      const answer = textOf(await work(read(hooked), ended));
      if (answer !== undefined) return answer;
    }
    return undefined;
  },
};

function decision(answer) {
  if (answer === undefined || answer === true || answer === 'allow') return { tag: 'allow' };
  if (typeof answer?.block === 'string') return { tag: 'block', val: answer.block };
  if (typeof answer?.ask === 'string' && ['string', 'undefined'].includes(typeof answer.ruleKey)) {
    return { tag: 'ask', val: { message: answer.ask, ruleKey: answer.ruleKey } };
  }
  throw new ToolError("preCall returns nothing or 'allow', { block: 'why' }, or { ask: 'why', ruleKey: 'what' }");
}

function textOf(answer) {
  if (answer === undefined || answer === null) return undefined;
  if (typeof answer === 'string') return wellFormed(answer, 'the answer of the hook');
  return written(answer, 'the answer of the hook');
}

function reason(error) {
  if (error instanceof ToolError || error instanceof NotAvailable) return String(error.message);
  const where = whereOf(error?.stack, host.place);
  return describeError(error) + (where ? ` (${where})` : '');
}

function nameOf(work) {
  for (const entry of definitions.tools.values()) if (entry.work === work) return entry.name;
  throw new DefinitionError(`need: \`${work.name}\` is no tool; define it with tool(...) before`);
}

function pairs(extensions = {}) {
  return Object.entries(extensions).map(([name, value]) => [name, definedText(value, `the extension \`${name}\``)]);
}

/** The toolset of a plugin whose tools name none, such that a host takes it. */
function toolsetOf(name) {
  const text = name.toLowerCase().replace(/[^a-z0-9_-]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 64);
  return text === '' || text.startsWith('mcp-') ? 'plugin' : text;
}

/** `countWords` is a tool `count_words`: what models see elsewhere. */
function snake(name) {
  return name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase();
}
