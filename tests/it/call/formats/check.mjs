// Checks definitions with the types of the MCP SDK: a JSON list of [format, definition] on stdin,
// a JSON list of null or the reason of a refusal on stdout. The argument is the folder in which
// the SDK is installed.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

const require = createRequire(join(process.argv[2], 'package.json'));
const { ToolSchema } = require('@modelcontextprotocol/sdk/types.js');

function refusal([format, definition]) {
    if (format !== 'mcp') return null;
    const parsed = ToolSchema.safeParse(definition);
    if (!parsed.success) return `ToolSchema: ${parsed.error.message}`;
    return isDeepStrictEqual(parsed.data, definition) ? null : 'ToolSchema drops something';
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(refusal)));
