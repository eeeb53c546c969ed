// Why a tool gives no output: three classes for the author, and how any other error reads.

/** The tool says no. The text alone is for the model: what went wrong, and what to do. */
export class ToolError extends Error {
  name = 'ToolError';
}

/** The arguments match the schema, yet the tool cannot use them. */
export class BadArguments extends Error {
  name = 'BadArguments';

  constructor(path, message, options) {
    super(message, options);
    this.path = path || undefined;
  }
}

/** The tool cannot work at present: something it requires is missing. */
export class NotAvailable extends Error {
  name = 'NotAvailable';
}

/** What the plugin's definition lacks: said by `register`, at the line of the author's. */
export class DefinitionError extends Error {
  name = 'DefinitionError';
}

// SpiderMonkey writes `name@file:line:column`, V8 `at name (file:line:column)`.
const FRAME = /(?:^|[@(\s])((?:file:\/\/)?[^@()\s][^@()\n]*?):(\d+):\d+\)?$/;

/**
 * Returns `file:line` of the first frame of a stack that `place` knows, or undefined.
 *
 * @param place turns a frame's file and line into `file:line` of an author's module, or undefined
 */
export function whereOf(stack, place) {
  for (const line of String(stack ?? '').split('\n')) {
    const frame = FRAME.exec(line.trim().replace(/^at (?:async )?/, ''));
    const found = frame && place(frame[1], Number(frame[2]));
    if (found) return found;
  }
  return undefined;
}

/** Returns `TypeName: message`, with the causes after it, whatever was thrown. */
export function describeError(error) {
  if (!(error instanceof Error)) {
    let text;
    try {
      text = typeof error === 'object' ? JSON.stringify(error) : String(error);
    } catch {
      text = Object.prototype.toString.call(error);
    }
    return `Error: ${text}`;
  }
  let text = error.message ? `${error.name}: ${error.message}` : error.name;
  const seen = new Set([error]);
  for (let cause = error.cause; cause instanceof Error && !seen.has(cause); cause = cause.cause) {
    seen.add(cause);
    text += `: ${cause.message || cause.name}`;
  }
  return text;
}

/** Turns whatever a tool threw into a `tool-error` of the contract. */
export function toolErrorOf(error, place) {
  if (error instanceof BadArguments) {
    // What is no text would stop the whole component.
    return { tag: 'bad-arguments', val: { message: String(error.message), path: error.path === undefined ? undefined : String(error.path) } };
  }
  if (error instanceof NotAvailable) return { tag: 'not-available', val: String(error.message) };
  if (error instanceof ToolError) return { tag: 'failed', val: String(error.message) };
  const where = error instanceof Error ? whereOf(error.stack, place) : undefined;
  return { tag: 'failed', val: describeError(error) + (where ? ` (${where})` : '') };
}
