// Writes a toolhost plugin: everything an author imports. Types and documentation: index.d.ts.

export { BadArguments, NotAvailable, ToolError } from './src/errors.js';
export { fetch } from './src/fetch.js';
export { env } from './src/env.js';
export { FileError, files } from './src/files.js';
export { kv, KvError } from './src/kv.js';
export { log, progress } from './src/log.js';
export { audio, image, json, output, resource, structured, text } from './src/output.js';
export { hooks, need, plugin, tool } from './src/plugin.js';
export { secrets } from './src/secrets.js';
