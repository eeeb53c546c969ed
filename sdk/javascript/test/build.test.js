// What belongs to a component that is built of a script. Needs the tools that tools.sh installs.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const SDK = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const hasTools = existsSync(path.join(SDK, '../../../node_modules/esbuild'));

test('a link is no part of a component', { skip: !hasTools && 'esbuild is not installed' }, (context) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'toolhost-test-'));
  context.after(() => rmSync(folder, { recursive: true }));
  for (const name of ['wit', 'words', 'elsewhere']) mkdirSync(path.join(folder, name));
  writeFileSync(path.join(folder, 'wit', 'plugin.wit'), '');
  writeFileSync(path.join(folder, 'elsewhere', 'a.js'), 'export const a = 1;\n');
  symlinkSync(path.join(folder, 'elsewhere'), path.join(folder, 'words', 'lib'));
  symlinkSync(path.join(folder, 'elsewhere', 'a.js'), path.join(folder, 'words', 'b.js'));
  symlinkSync(path.join(folder, 'elsewhere', 'a.js'), path.join(folder, 'words', 'plugin.mjs'));
  const said = (main, text) => {
    if (text !== undefined) writeFileSync(path.join(folder, 'words', main), text);
    const parameters = ['--main', path.join(folder, 'words', main), '--out', path.join(folder, 'out.wasm'), '--wit', path.join(folder, 'wit')];
    return spawnSync(process.execPath, [path.join(SDK, 'build.mjs'), ...parameters], { encoding: 'utf8' }).stderr.trim();
  };
  assert.equal(said('plugin.js', "\nimport { a } from './lib/a.js';\n"), "error: plugin.js:2: './lib/a.js' is a link, or lies behind one, and links are no part of a script: put the file itself there");
  assert.match(said('plugin.js', "import { a } from './b';\n"), /^error: plugin\.js:1: '\.\/b' is a link/);
  assert.match(said('plugin.mjs'), /^error: plugin\.mjs is a link/);
});
