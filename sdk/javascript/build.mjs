// Builds a component of a script, or the runner of scripts.
//
//   node build.mjs --main FILE --out OUT.wasm [--tools DIR] [--wit DIR] [--quiet]
//   node build.mjs --runner    --out OUT.wasm [--tools DIR] [--wit DIR] [--quiet] [--script FILE]
//
// FILE is the script: one file, or the `plugin.js`, `.mjs` or `.ts` of a folder. What it imports by
// a relative path becomes part of the component, and so does what it imports by name, from the
// `node_modules` of its folder or one above. Nothing is written but OUT.wasm.
//
// DIR of --tools is where `@bytecodealliance/componentize-js`, `esbuild`, `sucrase` and `zod` are
// installed (`node_modules` lies below it); by default they are looked for from this file and from
// the current directory.
//
// --script puts the text of a script into the runner, in place of what a host would give it, so that
// the runner can be tried in any host.
//
// Exits with 1 and one line on stderr if the script cannot be built, with 2 on wrong usage.

import { existsSync, lstatSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync, copyFileSync, mkdirSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import vm from 'node:vm';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const BAKED = 'toolhost-baked.js';
const ZOD = path.join(HERE, 'component', 'zod.js');

/** What the author, or whoever runs this, can repair. */
class BuildError extends Error {}

class UsageError extends Error {}

async function main() {
  const options = read();
  const tools = findTools(options.tools);
  const work = mkdtempSync(path.join(tmpdir(), 'toolhost-build-'));
  try {
    const wit = witFolder(work, options.wit);
    const source = path.join(work, BAKED);
    const { text, places } = options.runner ? await runnerText(tools, options.script) : await bakedText(tools, options.main);
    writeFileSync(source, text);
    const worldName = options.runner && !options.script ? 'javascript-runner' : 'javascript-plugin';
    const component = await componentized(tools, { sourcePath: source, witPath: wit, worldName }, places);
    writeFileSync(`${options.out}.part`, component);
    renameSync(`${options.out}.part`, options.out);
    if (!options.quiet) console.error(`${options.out}: ${component.length.toLocaleString('en')} bytes`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function read() {
  let values;
  try {
    ({ values } = parseArgs({
      options: {
        main: { type: 'string' },
        runner: { type: 'boolean' },
        script: { type: 'string' },
        out: { type: 'string' },
        tools: { type: 'string' },
        wit: { type: 'string', default: path.join(HERE, '..', '..', 'wit') },
        quiet: { type: 'boolean' },
      },
    }));
  } catch (error) {
    throw new UsageError(error.message);
  }
  if (!values.out || Boolean(values.main) === Boolean(values.runner)) {
    throw new UsageError('say --main FILE or --runner, and --out OUT.wasm');
  }
  return values;
}

/** Finds the tools: in the folder that was named, else from here, else from the current directory. */
function findTools(folder) {
  const places = (folder ? [folder] : [HERE, process.cwd()]).map((place) => path.resolve(place));
  const moduleFolders = places.flatMap((place) => above(place).map((one) => path.join(one, 'node_modules')));
  return {
    moduleFolders,
    /** Imports a package, of which `require.resolve` would find none that is for `import` only. */
    async import(name) {
      const found = moduleFolders.map((one) => path.join(one, name)).find((one) => existsSync(path.join(one, 'package.json')));
      if (found === undefined) {
        throw new BuildError(`no package \`${name}\` ${folder ? `below ${folder}` : 'from here'}: run sdk/javascript/tools.sh DIR, and name DIR with --tools`);
      }
      const { exports, main } = JSON.parse(readFileSync(path.join(found, 'package.json'), 'utf8'));
      const root = exports?.['.'] ?? exports ?? main ?? 'index.js';
      const entry = typeof root === 'string' ? root : (root.import ?? root.default);
      const imported = await import(pathToFileURL(path.join(found, entry)).href);
      return imported.default ?? imported;
    },
  };
}

/** A folder and all folders that it is in. */
function above(folder) {
  const parent = path.dirname(folder);
  return parent === folder ? [folder] : [folder, ...above(parent)];
}

/** The contract's folder, with the worlds of this SDK and what they import. */
function witFolder(work, contract) {
  const folder = path.join(work, 'wit');
  mkdirSync(folder);
  const files = existsSync(contract) ? readdirSync(contract).filter((name) => name.endsWith('.wit')) : [];
  if (files.length === 0) throw new UsageError(`no contract in ${contract}: --wit names the folder \`wit\` of toolhost`);
  for (const name of files) copyFileSync(path.join(contract, name), path.join(folder, name));
  copyFileSync(path.join(HERE, 'wit', 'javascript.wit'), path.join(folder, 'javascript.wit'));
  for (const [name, below] of [['environment.wit', 'cli'], ['filesystem.wit', 'filesystem']]) {
    mkdirSync(path.join(folder, 'deps', below), { recursive: true });
    copyFileSync(path.join(HERE, 'wit', name), path.join(folder, 'deps', below, name));
  }
  return folder;
}

async function runnerText(tools, scriptFile) {
  let script;
  if (scriptFile) {
    const { Script } = await loader(tools);
    const modules = collect(Script, path.dirname(path.resolve(scriptFile)), path.basename(scriptFile));
    script = `export const modules = () => ${JSON.stringify(modules.map(({ path, text }) => ({ path, text })))};
export const keep = () => false;
export const kept = () => undefined;`;
  }
  const text = await bundled(tools, { entry: path.join(HERE, 'component', 'runner.js'), folder: HERE, script });
  return { text, places: [] };
}

/** The script's modules as functions, line by line, and behind them the SDK and the packages. */
async function bakedText(tools, mainFile) {
  const { Script, functionText } = await loader(tools);
  const folder = path.dirname(path.resolve(mainFile));
  const modules = collect(Script, folder, path.basename(mainFile));
  const names = new Set();
  let line = 2;
  let functions = 'const __toolhost_modules = [\n';
  const places = [];
  for (const module of modules) {
    const fields = `path: ${JSON.stringify(module.path)}, text: ${JSON.stringify(module.text)}`;
    for (const { from } of module.compiled.imports) if (!/^\.\.?\//.test(from) && from !== 'toolhost-sdk') names.add(from);
    const text = functionText(module.compiled);
    try {
      new vm.Script(text, { filename: module.path });
    } catch (error) {
      throw new BuildError(syntaxText(module.path, error));
    }
    const count = text.split('\n').length;
    const isFull = Boolean(module.compiled.isFull);
    functions += `{ ${fields}, imports: [], isFull: ${isFull}, first: ${line}, last: ${line + count - 1}, run: ${text} },\n`;
    places.push({ path: module.path, first: line, last: line + count - 1 });
    line += count;
  }
  const packages = [...names].map((name, index) => [name, `package_${index}`]);
  const glue =
    packages.map(([name, as]) => `import * as ${as} from ${JSON.stringify(name === 'zod' ? ZOD : name)};\n`).join('') +
    `export const packages = { ${packages.map(([name, as]) => `${JSON.stringify(name)}: ${as}`).join(', ')} };\n`;
  const rest = await bundled(tools, { entry: path.join(HERE, 'component', 'baked.js'), folder, glue });
  return { text: `${functions}];\n${rest}`, places };
}

/** The loader, which needs sucrase. */
async function loader(tools) {
  const text = await bundled(tools, { entry: path.join(HERE, 'component', 'building.js'), folder: HERE });
  return import(`data:text/javascript;base64,${Buffer.from(text).toString('base64')}`);
}

/** Reads the modules that belong to a script: what it imports by relative paths, and so on. */
function collect(Script, folder, mainName) {
  const script = new Script([], {});
  const resolve = (from, name) => {
    for (const candidate of script.candidates(from, name)) {
      const file = path.join(folder, candidate);
      if (!existsSync(file) || /[\\/]$/.test(file) || !readable(file)) continue;
      if (!isLinked(folder, candidate)) return candidate;
      // A host that runs the script would not read it either.
      const at = script.lineOf(script.modules.get(from), name);
      throw new BuildError(`${at}: '${name}' is a link, or lies behind one, and links are no part of a script: put the file itself there`);
    }
    return undefined;
  };
  if (/^plugin\.(js|mjs|ts)$/.test(mainName) && isLinked(folder, mainName)) {
    throw new BuildError(`${mainName} is a link, and links are no part of a script: put the file itself there`);
  }
  const queue = [mainName];
  for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
    if (script.modules.has(name)) continue;
    let text;
    try {
      text = readFileSync(path.join(folder, name), 'utf8');
    } catch (error) {
      throw new BuildError(`${path.join(folder, name)} cannot be read: ${error.code ?? error.message}`);
    }
    script.modules.set(name, { path: name, text });
    script.main ??= name;
    for (const { from } of script.compiled(name).imports) {
      const found = resolve(name, from);
      if (found !== undefined) queue.push(found);
    }
  }
  for (const name of script.cycles()) script.compiled(name, 'full');
  return [...script.modules.values()];
}

/** Tells whether a part of a path below a folder is a link. */
function isLinked(folder, below) {
  const parts = below.split('/');
  return parts.some((_, index) => lstatSync(path.join(folder, ...parts.slice(0, index + 1)), { throwIfNoEntry: false })?.isSymbolicLink());
}

function readable(file) {
  try {
    readFileSync(file);
    return true;
  } catch {
    return false;
  }
}

function syntaxText(file, error) {
  const [, line] = /^[^\n]*:(\d+)\n/.exec(error.stack) ?? [];
  const hint = /\bawait\b/.test(error.message) ? '; a script cannot wait while it is loaded, so use await inside of an async function' : '';
  return `${file}:${line ?? 1}: SyntaxError: ${error.message}${hint}`;
}

/** Bundles an entry of the SDK; `glue` stands for the packages that the script imports. */
async function bundled(tools, { entry, folder, glue, script }) {
  const { build } = await tools.import('esbuild');
  const virtual = {
    name: 'toolhost-packages',
    setup(setup) {
      // Sixty languages of messages that a model reads in English.
      setup.onResolve({ filter: /\/locales\/index\.js$/ }, ({ resolveDir }) =>
        /[\\/]zod[\\/]/.test(resolveDir) ? { path: 'locales', namespace: 'toolhost', pluginData: resolveDir } : undefined);
      setup.onLoad({ filter: /^locales$/, namespace: 'toolhost' }, ({ pluginData }) => ({
        contents: "export { default as en } from '../locales/en.js';", resolveDir: pluginData, loader: 'js',
      }));
      if (script) {
        setup.onResolve({ filter: /^toolhost:plugin\/script@/ }, () => ({ path: 'script', namespace: 'toolhost' }));
        setup.onLoad({ filter: /^script$/, namespace: 'toolhost' }, () => ({ contents: script, loader: 'js' }));
      }
      setup.onResolve({ filter: /^toolhost-packages$/ }, () => ({ path: 'packages', namespace: 'toolhost' }));
      setup.onLoad({ filter: /^packages$/, namespace: 'toolhost' }, () => ({ contents: glue, resolveDir: folder, loader: 'js' }));
    },
  };
  let result;
  try {
    result = await build({
      entryPoints: [entry],
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'neutral',
      target: 'es2022',
      mainFields: ['module', 'main'],
      conditions: ['worker', 'import'],
      external: ['toolhost:*', 'wasi:*'],
      nodePaths: tools.moduleFolders,
      plugins: [virtual],
      logLevel: 'silent',
      absWorkingDir: realpathSync(folder),
      legalComments: 'none',
      minifyWhitespace: true,
      lineLimit: 200,
    });
  } catch (error) {
    const first = error.errors?.[0]?.text ?? error.message;
    throw new BuildError(`${first}: a package that the script imports must be installed in its folder or one above, and must not need Node.js`);
  }
  return result.outputFiles[0].text;
}

async function componentized(tools, options, places) {
  const { componentize } = await tools.import('@bytecodealliance/componentize-js');
  try {
    return (await componentize(options)).component;
  } catch (error) {
    const early = /unknown imported function: '([^']*)' '([^']*)'/.exec(error.message);
    if (early) {
      throw new BuildError(`a package asks the host for ${early[2]} (${early[1]}) when it is imported, which is while the component is built: import one that waits until it is called`);
    }
    // What Node.js can read and SpiderMonkey cannot.
    const [, line, message] = /toolhost-baked\.js:(\d+):\d+ (SyntaxError: [^\n]*)/.exec(error.message) ?? [];
    const module = places.find(({ first, last }) => line >= first && line <= last);
    if (module) throw new BuildError(`${module.path}:${line - module.first + 1}: ${message}`);
    throw new BuildError(`componentize-js: ${error.message}`);
  }
}

main().catch((error) => {
  const known = error instanceof BuildError || error instanceof UsageError || error.name === 'ScriptError';
  console.error(known ? `error: ${error.message}` : error);
  process.exitCode = error instanceof UsageError ? 2 : 1;
});
