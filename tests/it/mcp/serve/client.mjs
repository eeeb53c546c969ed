// Uses a server through the official TypeScript SDK: client.mjs PACKAGES COMMAND. Prints what it saw.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, command] = process.argv.slice(2);
const { resolve } = createRequire(`${packages}/package.json`);
const load = (path) => import(pathToFileURL(resolve(`@modelcontextprotocol/sdk/${path}`)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");

const client = new Client({ name: "test", version: "1" });
await client.connect(new StdioClientTransport({ command, args: ["serve"], env: process.env }));
const say = (name, value) => console.log(`${name}: ${JSON.stringify(value)}`);
say("server", client.getServerVersion().name);
const { tools } = await client.listTools();
say("listed", tools.map((tool) => tool.name).filter((name) => ["blocks", "spin"].includes(name)));
const blocks = await client.callTool({ name: "blocks", arguments: {} });
say("blocks", blocks.content.map((block) => block.type));
const structured = await client.callTool({ name: "structured", arguments: { n: 3 } });
say("structured", [structured.structuredContent, structured.content[0].text]);
const failed = await client.callTool({ name: "fail", arguments: { text: "no" } });
say("failed", [failed.isError, failed.content[0].text]);
const unknown = client.callTool({ name: "no_such_tool_at_all", arguments: {} });
say("unknown", await unknown.catch((error) => [error.code, error.message]));
const signal = AbortSignal.timeout(200);
await client.callTool({ name: "spin", arguments: {} }, undefined, { signal }).catch(() => {});
const echoed = await client.callTool({ name: "echo", arguments: { text: "here" } });
say("after spin", echoed.content[0].text);
await client.close();
