// Writes a toolhost plugin in JavaScript or TypeScript. README.md tells it step by step.

/** A schema of zod, or of another library that follows Standard Schema and Standard JSON Schema. */
export interface Schema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => unknown;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

/** A JSON Schema of an object. Objects without `additionalProperties` allow no others. */
export interface JsonSchema {
  type: 'object';
  properties?: Record<string, unknown>;
  required?: readonly string[];
  [keyword: string]: unknown;
}

/** What the host says about one call. */
export interface Context {
  /** The name of the tool that is called. */
  tool: string;
  sessionId?: string;
  taskId?: string;
  toolCallId?: string;
  /** Milliseconds left until the host stops the call. */
  remainingMs: number;
  extensions: [string, string][];
}

/** Arguments, and text that must occur in the output. */
export type Example = { arguments: object; expected?: string } | [arguments: object, expected?: string];

export interface Definition<Parameters = unknown> {
  /** The name a model calls. Default: the function's name, `countWords` as `count_words`. */
  name?: string;
  /** The group the tool belongs to. Default: the plugin's toolset, or else its name. */
  toolset?: string;
  /** What the tool does and when to use it. Default: the documentation comment of the function. */
  description?: string;
  /** The arguments. Default: the `@param`s of the function's documentation comment, or its types. */
  parameters?: Parameters;
  /** The schema of the result, which must be an object then; the result is structured as well. */
  output?: Schema | JsonSchema;
  emoji?: string;
  /** Variables or secrets without which the tool is unavailable. */
  requiresEnv?: string | string[];
  /** From which size on a result is kept and previewed. */
  maxResultSizeChars?: number;
  /** Asks to replace a tool of the same name. */
  overrides?: boolean;
  /** Hints for people: what is left out says nothing. */
  readOnly?: boolean;
  destructive?: boolean;
  idempotent?: boolean;
  openWorld?: boolean;
  /** Can the tool work at present? Returns or throws why not. Tools with the same function share its answer. */
  check?: (tool: string) => void | boolean | string | Promise<void | boolean | string>;
  /** What changes in the definition when these tools are visible. */
  describe?: (available: string[]) => Change | undefined | Promise<Change | undefined>;
  /** Documentation, and tests that a new build must pass. */
  examples?: Example[];
  /** Named values of later contracts. */
  extensions?: Record<string, unknown>;
}

export interface Change {
  description?: string;
  parameters?: Schema | JsonSchema;
}

/** What a tool may return: text, anything that can be JSON, or content blocks. */
export type Result = unknown;

/** Sets the plugin's name and version, and the toolset of tools that name none. */
export function plugin(name: string, version?: string, options?: { toolset?: string; extensions?: Record<string, unknown> }): void;

/** Makes a function a tool, and returns the function. */
export function tool<Arguments, Work extends (args: Arguments, context: Context) => Result>(
  definition: Definition<Schema<Arguments>> & { parameters: Schema<Arguments> },
  work: Work,
): Work;
export function tool<Work extends (args: any, context: Context) => Result>(definition: Definition<JsonSchema>, work: Work): Work;
export function tool<Work extends (args: any, context: Context) => Result>(work: Work, definition?: Definition<Schema | JsonSchema>): Work;

export interface NeedOptions {
  /** The tools that use it, by name or function; none means all. */
  tools?: string | Function | (string | Function)[];
  /** Why, in one sentence for the person who decides. */
  reason?: string;
}

/** Where a secret belongs: one header or one query parameter of requests to these hosts. */
export type SecretSlot = { hosts: string | string[] } & ({ header: string; query?: undefined } | { query: string; header?: undefined });

export type HookEvent = 'request' | 'pre-call' | 'post-call' | 'transform';

/** Asks for authority; the operator decides. */
export const need: {
  /** Asks for a kind by its name, with its value as the contract defines it. */
  (kind: string, value?: object, options?: NeedOptions): void;
  /** To send requests to these hosts, written `[METHODS ][SCHEME://]HOST[:PORT][/PREFIX]`. */
  http(hosts: string | string[], options?: NeedOptions): void;
  /** To read variables of the host's environment. */
  env(names: string | string[], options?: NeedOptions): void;
  /** To have a secret put into requests. */
  secret(name: string, slot: SecretSlot, options?: NeedOptions): void;
  /** To have a store of the plugin's own. */
  kv(options?: NeedOptions): void;
  /** To read a directory; `*` is whichever the operator grants. */
  readDirectory(path: string, options?: NeedOptions): void;
  /** To read and change a directory. */
  writeDirectory(path: string, options?: NeedOptions): void;
  /** To hear of calls of other plugins' tools. */
  hooks(events: HookEvent | HookEvent[], tools: string | string[], options?: NeedOptions): void;
};

export interface HookedCall {
  tool: string;
  /** Where the tool comes from, such as `plugin:files`. */
  source: string;
  arguments: Record<string, unknown>;
  sessionId?: string;
  taskId?: string;
  toolCallId?: string;
}

export interface HookedOutcome {
  /** Undefined if the tool answered; otherwise the error's code. */
  code?: string;
  /** What the model reads: JSON text. */
  result: string;
  durationMs: number;
}

/** What `preCall` decides; nothing is 'allow'. */
export type Decision = void | true | 'allow' | { block: string } | { ask: string; ruleKey?: string };

type Promised<T> = T | Promise<T>;

/**
 * Sees, changes, stops or rewrites calls of other plugins' tools, as far as need.hooks was granted.
 *
 * What is given later is asked later: each `request` sees what the one before returned, and the first
 * block of a `preCall` counts.
 */
export function hooks(hooks: {
  /** Returns other arguments, or nothing. An error refuses the call. */
  request?: (call: HookedCall) => Promised<object | void>;
  /** Decides whether the call runs. An error refuses it. */
  preCall?: (call: HookedCall) => Promised<Decision>;
  /** Hears of the end of a call. */
  postCall?: (call: HookedCall, outcome: HookedOutcome) => Promised<void>;
  /** Returns a text in place of the answer, or nothing. */
  transform?: (call: HookedCall, outcome: HookedOutcome) => Promised<string | object | void>;
}): void;

/** The tool says no; the text alone is for the model: what went wrong, and what to do. */
export class ToolError extends Error {}

/** The argument at `path`, a JSON Pointer such as `/filter`, cannot be used. */
export class BadArguments extends Error {
  constructor(path: string, message: string, options?: ErrorOptions);
  path?: string;
}

/** The tool cannot work at present; the text says what is missing. */
export class NotAvailable extends Error {}

/** One block of an answer. */
export interface Content {
  readonly block: { tag: string; val: unknown };
}

/** Several blocks, or a structured answer. */
export interface Output {
  readonly blocks: Content[];
}

export function text(value: string): Content;
export function json(value: unknown): Content;
export function image(mediaType: string, data: Uint8Array | ArrayBuffer): Content;
export function audio(mediaType: string, data: Uint8Array | ArrayBuffer): Content;
/** A pointer to a resource, with its text if that is short. */
export function resource(uri: string, options?: { mediaType?: string; text?: string }): Content;
/** Several blocks in order; what is no block becomes one. */
export function output(...blocks: unknown[]): Output;
/** An object for programs, and `shown` for models (by default the same as JSON). */
export function structured(value: object, shown?: unknown): Output;

/** Lines for the host's log; a model never sees them. */
export const log: Record<'debug' | 'info' | 'warn' | 'error', (message: string) => void>;

/** Reports progress: `done` of `total`, in units of your choice. */
export function progress(done: number, total?: number, message?: string): void;

/** A variable of the host's environment, if it was granted. */
export function env(name: string): string | undefined;

/** A small store of the plugin's own. Each function is atomic, and what it has written stays. */
export const kv: {
  get(key: string): Uint8Array | undefined;
  getText(key: string): string | undefined;
  getJson(key: string): any;
  set(key: string, value: string | Uint8Array): void;
  setJson(key: string, value: unknown): void;
  /** Says whether the key was there. */
  delete(key: string): boolean;
  /** Sets the value (undefined: removes it) only if the present one is `expected`, and says whether it was. */
  swap(key: string, expected: string | Uint8Array | undefined, value: string | Uint8Array | undefined): boolean;
  /** Every key that begins with `prefix`, in the order of their bytes. */
  keys(prefix?: string): Generator<string, void, undefined>;
};

export class KvError extends Error {
  code: 'not-granted' | 'invalid' | 'full' | 'unavailable' | 'malformed';
}

/**
 * Files in directories that were granted (need.readDirectory, need.writeDirectory), at the paths of the
 * grants; relative to `.` if the working directory was granted.
 */
export const files: {
  /** The text of a file in UTF-8. */
  readText(path: string): string;
  readBytes(path: string): Uint8Array;
  /** Writes a file anew; its directory must be there. */
  writeText(path: string, text: string): void;
  writeBytes(path: string, bytes: Uint8Array): void;
  /** What is in a directory, by name. */
  list(path: string): { name: string; kind: 'file' | 'directory' | 'link' | 'other' }[];
};

export class FileError extends Error {
  /** WASI's code, such as `no-entry` or `not-permitted`; or `not-granted`, `malformed`, `invalid`. */
  code: string;
  path: string;
}

/** Secrets that a tool uses without ever seeing them: the host puts them into requests. */
export const secrets: {
  /** Is it there for this tool: asked for, granted and set? */
  present(name: string): boolean;
  /** A text that stands for it, for slots that hold more, as in `Bearer ...`. */
  placeholder(name: string): string | undefined;
};

/** The runtime's own `fetch`, over what was granted. */
export function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;
