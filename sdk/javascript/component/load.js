// Loads a script: finds its modules by their paths, runs them in the order of their imports, and
// says in one line, with file and line, what is wrong with them.

import { DefinitionError, describeError, whereOf } from '../src/errors.js';
import { compile, functionText } from './compile.js';

const ENDINGS = ['', '.js', '.mjs', '.ts', '/index.js', '/index.mjs', '/index.ts'];

/** What is wrong with a script; the text begins with its file and line. */
export class ScriptError extends Error {
  name = 'ScriptError';
}

/**
 * A script and what has been loaded of it.
 *
 * @param modules `{ path, text }`, the main one first; `run` in place of a text if it was compiled before
 * @param preloaded what can be imported by name: objects of exports
 */
export class Script {
  constructor(modules, preloaded) {
    this.modules = new Map(modules.map((module) => [module.path, module]));
    this.main = modules[0]?.path;
    this.preloaded = preloaded;
    this.loaded = new Map();
  }

  /**
   * A script as `packed` wrote it, whose modules need not be compiled.
   *
   * @param texts returns the modules as a host gives them, for errors that quote them
   */
  static unpacked(packed, texts, preloaded) {
    let known;
    const text = (path) => (known ??= new Map(texts().map((module) => [module.path, module.text]))).get(path);
    const modules = JSON.parse(packed).map(([path, code, isFull]) =>
      Object.defineProperty(code === undefined ? { path } : { path, code, isFull, imports: [] }, 'text', { get: () => text(path) }));
    return new Script(modules, preloaded);
  }

  /** What the modules were compiled to, as JSON. */
  packed() {
    const wanted = new Set();
    const visit = (path) => {
      if (path === undefined || wanted.has(path)) return;
      wanted.add(path);
      for (const { from } of this.compiled(path).imports) visit(this.resolve(path, from));
    };
    visit(this.main);
    return JSON.stringify([...this.modules.keys()].map((path) => {
      if (!wanted.has(path)) return [path];
      const compiled = this.compiled(path);
      return [path, functionText(compiled), Boolean(compiled.isFull)];
    }));
  }

  /** Runs the main module. */
  load() {
    if (this.main === undefined) throw new ScriptError('there is no module to run');
    for (const path of this.cycles()) this.compiled(path, 'full');
    try {
      this.exportsOf(this.main);
    } catch (error) {
      throw this.explained(error);
    }
  }

  /** The author's `file:line` of a frame of a stack, or undefined. */
  place(file, line) {
    return this.modules.has(file) ? `${file}:${line}` : undefined;
  }

  /** Modules that import each other: what they import of each other may not be there yet. */
  cycles() {
    const found = new Set();
    const stack = [];
    const done = new Set();
    const visit = (path) => {
      const index = stack.indexOf(path);
      if (index >= 0) for (const one of stack.slice(index)) found.add(one);
      if (index >= 0 || done.has(path)) return;
      done.add(path);
      stack.push(path);
      for (const { from } of this.compiled(path).imports) {
        const target = this.resolve(path, from);
        if (target !== undefined) visit(target);
      }
      stack.pop();
    };
    // Most scripts are one module.
    if (this.modules.size > 1) visit(this.main);
    return found;
  }

  /** The path of the module that `from` means in the module `path`, or undefined. */
  resolve(path, from) {
    return this.candidates(path, from).find((one) => this.modules.has(one));
  }

  /** The paths that `from` may mean in the module `path`, the likeliest first. */
  candidates(path, from) {
    if (!/^\.\.?\//.test(from)) return [];
    const parts = path.split('/').slice(0, -1);
    for (const part of from.split('/')) {
      if (part === '..' && parts.length === 0) return [];
      if (part === '..') parts.pop();
      else if (part !== '.') parts.push(part);
    }
    const base = parts.join('/');
    // TypeScript writes `./lib.js` for what is `./lib.ts`.
    return [...ENDINGS.map((ending) => base + ending), base.replace(/\.js$/, '.ts')];
  }

  compiled(path, mode = 'quick') {
    const module = this.modules.get(path);
    if (module.run || module.code) return module;
    if (!module.compiled || (mode === 'full' && !module.compiled.isFull)) {
      try {
        module.compiled = compile(path, module.text, mode);
      } catch (error) {
        throw new ScriptError(syntaxProblem(path, module.text, error));
      }
    }
    return module.compiled;
  }

  /** Runs a module unless it has run, and returns what it exports. */
  exportsOf(path) {
    const known = this.loaded.get(path);
    if (known) return known;
    const module = this.modules.get(path);
    const run = module.run ?? this.evaluated(module);
    const isFull = module.isFull ?? module.compiled.isFull;
    const exports = isFull ? {} : asModule(Object.create(null));
    this.loaded.set(path, exports);
    const required = (from, names) => this.required(module, from, names);
    if (isFull) run.call(undefined, exports, required);
    else run.call(undefined, (getters) => define(exports, getters), required, (other) => copy(exports, other));
    return exports;
  }

  evaluated(module) {
    const evaluate = (text) => (0, eval)(`${text}\n//# sourceURL=${module.path}`);
    if (module.code) return evaluate(module.code);
    const attempt = (compiled) => evaluate(functionText(compiled));
    const compiled = this.compiled(module.path);
    try {
      return attempt(compiled);
    } catch (error) {
      if (compiled.isFull) throw new ScriptError(syntaxProblem(module.path, module.text, error));
      try {
        // The lexer may have missed a statement; if sucrase fails as well, SpiderMonkey's error
        // is the better one, unless it is about that statement.
        return attempt(this.compiled(module.path, 'full'));
      } catch (second) {
        const isMissed = /import|export/.test(error.message) && !/import\.meta/.test(error.message);
        throw new ScriptError(syntaxProblem(module.path, module.text, isMissed ? second : error));
      }
    }
  }

  /** What `import ... from 'from'` in a module gets. */
  required(module, from, names = []) {
    const path = this.resolve(module.path, from);
    const found = path === undefined ? this.named(from) : this.exportsOf(path);
    if (found === undefined) throw new ScriptError(`${this.lineOf(module, from)}: ${this.missing(from)}`);
    for (const name of names) {
      if (name in found) continue;
      const known = Object.keys(this.preloaded[from] ?? found);
      const shown = known.length > 20 ? `${known.slice(0, 20).join(', ')}, ...` : known.join(', ') || 'nothing';
      throw new ScriptError(`${this.lineOf(module, from)}: '${from}' exports no \`${name}\`; it exports ${shown}`);
    }
    return found;
  }

  /** What can be imported by name, as sucrase knows a module. */
  named(name) {
    const found = Object.hasOwn(this.preloaded, name) ? this.preloaded[name] : undefined;
    return found && asModule(Object.create(found));
  }

  missing(from) {
    if (/^\.\.?\//.test(from)) {
      return `no module '${from}': the script has ${[...this.modules.keys()].join(', ')}`;
    }
    const names = Object.keys(this.preloaded).join(', ');
    return `no module named '${from}': a script can import its own modules (by './...') and what the runner has (${names}); for others build a component with \`toolhost build\``;
  }

  /** `file:line` of the import of `from`. */
  lineOf(module, from) {
    const lines = (module.text ?? '').split('\n');
    const quoted = [`'${from}'`, `"${from}"`];
    const index = lines.findIndex((line) => quoted.some((one) => line.includes(one)) && /import|export|from/.test(line));
    return `${module.path}:${index < 0 ? 1 : index + 1}`;
  }

  /** What is wrong with the script, in one line. */
  explained(error) {
    if (error instanceof ScriptError) return error;
    const where = error instanceof Error ? whereOf(error.stack, (file, line) => this.place(file, line)) : undefined;
    const text = error instanceof DefinitionError ? error.message : describeError(error);
    return new ScriptError(`${where ?? this.main}: ${text}`);
  }
}

/** Marks an object as what a module exports, which sucrase looks for. */
function asModule(exports) {
  return Object.defineProperty(exports, '__esModule', { value: true });
}

function define(exports, getters) {
  for (const name in getters) {
    Object.defineProperty(exports, name, { get: getters[name], enumerable: true });
  }
}

/** `export * from`: all but the default. */
function copy(exports, other) {
  for (const name of Object.keys(other)) {
    if (name === 'default' || name === '__esModule' || name in exports) continue;
    Object.defineProperty(exports, name, { get: () => other[name], enumerable: true });
  }
}

function syntaxProblem(path, text, error) {
  const count = text.split('\n').length;
  // sucrase writes `Error transforming words.ts: Unexpected token (7:12)`.
  const [, message, at] = /^(?:Error transforming [^:]*: )?([^]*?)(?: \((\d+):\d+\))?$/.exec(error.message);
  const line = at === undefined ? error.lineNumber : Number(at);
  if (line > count) return `${path}:${count}: SyntaxError: the file ends in the middle of something: ${message}`;
  const hint = /\bawait\b/.test(message) ? '; a script cannot wait while it is loaded, so use await inside of an async function' : '';
  return `${path}:${line ?? 1}: SyntaxError: ${message}${hint}`;
}
