// Turns the text of an ES module into a function that the loader can call, line by line: what
// stands in line 12 of the author's file stands in line 12 of the function.
//
// Most modules need no parser for that: their imports and exports begin a line, and a lexer that
// leaps from quote to quote finds them. It gives up (returns undefined) where it is not sure, and
// then sucrase does it, which takes 20 ms a kilobyte in a component.

import { transform } from 'sucrase';

// Names that an author will not use.
const EXPORTS = '__toolhost_exports';
const REQUIRE = '__toolhost_require';
const STAR = '__toolhost_star';

const NAME = '[A-Za-z_$][\\w$]*';
const FROM = `(["'])([^"'\\n\\\\]*)`;
const WITH = '(?:\\s*with\\s*\\{[^}]*\\})?[ \\t]*;?';
const sticky = (...parts) => new RegExp(parts.join(''), 'y');

const IMPORT = sticky(`import\\s*(?:(${NAME})\\s*(?:,\\s*|(?=from\\b)))?(?:\\*\\s*as\\s+(${NAME})\\s*|\\{([^{}]*)\\}\\s*)?(?:from\\s*)?`, FROM, `\\4`, WITH);
const EXPORT_DECLARATION = sticky(`export\\s+(?:async\\s+)?(?:function\\b\\s*\\*?|class\\b|const\\b)\\s*(${NAME})`);
const EXPORT_DEFAULT = sticky(`export\\s+default\\b\\s*`);
const DEFAULT_NAMED = sticky(`(?:(?:async\\s+)?function\\b\\s*\\*?|class\\b)\\s*(?!extends\\b)(${NAME})`);
const DEFAULT_UNNAMED = sticky(`(?:async\\s+)?function\\b|class\\b|async\\b|type\\b|interface\\b|abstract\\b`);
const EXPORT_LIST = sticky(`export\\s*\\{([^{}]*)\\}(?:\\s*from\\s*`, FROM, `\\2`, `)?`, WITH);
const EXPORT_STAR = sticky(`export\\s*\\*\\s*(?:as\\s+(${NAME})\\s+)?from\\s*`, FROM, `\\2`, WITH);
const SPECIFIER = new RegExp(`^(${NAME})(?:\\s+as\\s+(${NAME}))?$`);
// What `, b = 2` after `export const a = 1` looks like, and much else.
const SECOND_DECLARATOR = /,\s*(?:[A-Za-z_$][\w$]*|[[{][^]*?[\]}])\s*=(?![=>])/;

/** Compiles one module: `{ code, imports }`. Throws what sucrase cannot read, as SyntaxError. */
export function compile(path, text, mode = 'quick') {
  text = text.replace(/^#!.*/, '');
  const quick = mode === 'quick' && !path.endsWith('.ts') ? compileQuickly(text) : undefined;
  return quick ?? compileFully(path, text);
}

const wrapped = `(function (${EXPORTS}, ${REQUIRE}, ${STAR}) { "use strict"; `;

/** The text of the function for what `compileQuickly` or `compileFully` found. */
export function functionText({ prologue, code, isFull }) {
  const head = isFull ? '(function (exports, require) { ' : wrapped;
  return `${head}${prologue}${code}\n})`;
}

/** Compiles with sucrase. */
function compileFully(path, text) {
  const transforms = path.endsWith('.ts') ? ['typescript', 'imports'] : ['imports'];
  const { code } = transform(text, { transforms, disableESTransforms: true, filePath: path });
  const imports = [...code.matchAll(/\brequire\((["'])([^"'\n]+)\1\)/g)].map(([, , from]) => ({ from, names: [] }));
  return { prologue: '', code, imports, isFull: true };
}

/** Compiles with the lexer, or returns undefined. */
function compileQuickly(text) {
  // Of no use to the lexer: `import()`, `import.meta`.
  if (/\bimport\s*[(.]/.test(text)) return undefined;
  const statements = moduleStatements(text);
  if (statements === undefined) return undefined;
  const imports = [];
  const exported = [];
  const stars = [];
  const bound = new Set();
  const locals = [];
  let code = '';
  let end = 0;
  for (const start of statements) {
    if (start < end) return undefined;
    const read = text[start] === 'i' ? readImport(text, start, imports, bound) : readExport(text, start, { imports, exported, stars, locals });
    if (read === undefined) return undefined;
    code += text.slice(end, start) + read.code;
    end = read.end;
  }
  code += text.slice(end);
  // What is exported under another statement must never change, for importers get its value once.
  if (!locals.every((name) => bound.has(name) || isConstant(text, name))) return undefined;
  const getters = exported.map(([name, value]) => `${JSON.stringify(name)}:()=>${value}`);
  const definitions = imports.map((one, index) => one.definition(`${REQUIRE}(${JSON.stringify(one.from)},${JSON.stringify(one.names)})`, index));
  const prologue =
    (getters.length > 0 ? `${EXPORTS}({${getters}});` : '') + definitions.join('') + stars.map((index) => `${STAR}(__toolhost_${index});`).join('');
  return { prologue, code, imports: imports.map(({ from, names }) => ({ from, names })) };
}

/** Blanks all but the ends of lines. */
const lines = (text) => text.replace(/[^\n]+/g, '');

function readImport(text, start, imports, bound) {
  IMPORT.lastIndex = start;
  const match = IMPORT.exec(text);
  if (!match) return undefined;
  const [all, main, space, list, , from] = match;
  const isBare = main === undefined && space === undefined && list === undefined;
  if (isBare === /\bfrom\s*["']/.test(all)) return undefined;
  const pairs = specifiers(list ?? '');
  if (pairs === undefined) return undefined;
  if (main !== undefined) pairs.push(['default', main]);
  for (const [, local] of pairs) bound.add(local);
  if (space !== undefined) bound.add(space);
  const names = pairs.map(([name]) => name);
  imports.push({
    from,
    names,
    definition(required, index) {
      const parts = pairs.map(([name, local]) => (name === local ? name : `${name}:${local}`));
      if (space !== undefined) return `const ${space}=${required}${parts.length > 0 ? `,{${parts}}=${space}` : ''};`;
      return parts.length > 0 ? `const {${parts}}=${required};` : `${required};`;
    },
  });
  return { code: lines(all), end: start + all.length };
}

function readExport(text, start, found) {
  const at = (form, index = start) => {
    form.lastIndex = index;
    return form.exec(text);
  };
  let match = at(EXPORT_DECLARATION);
  if (match) {
    const names = /^export\s+const\b/.test(match[0]) ? constants(text, start + match[0].length) : [];
    if (names === undefined) return undefined;
    for (const name of [match[1], ...names]) found.exported.push([name, name]);
    return { code: '      ', end: start + 6 };
  }
  match = at(EXPORT_DEFAULT);
  if (match) {
    const end = start + match[0].length;
    const named = at(DEFAULT_NAMED, end);
    if (!named && at(DEFAULT_UNNAMED, end)) return undefined;
    if (named) {
      found.exported.push(['default', named[1]]);
      return { code: lines(match[0]), end };
    }
    found.exported.push(['default', '__toolhost_default']);
    return { code: `const __toolhost_default = ${lines(match[0])}`, end };
  }
  match = at(EXPORT_STAR);
  if (match) {
    const [all, name, , from] = match;
    const index = found.imports.length;
    found.imports.push({ from, names: [], definition: (required) => `const __toolhost_${index}=${required};` });
    if (name === undefined) found.stars.push(index);
    else found.exported.push([name, `__toolhost_${index}`]);
    return { code: lines(all), end: start + all.length };
  }
  match = at(EXPORT_LIST);
  const pairs = match && specifiers(match[1]);
  if (!pairs) return undefined;
  const [all, , , from] = match;
  if (from === undefined) {
    for (const [local, name] of pairs) {
      found.locals.push(local);
      found.exported.push([name, local]);
    }
  } else {
    const index = found.imports.length;
    found.imports.push({ from, names: pairs.map(([name]) => name), definition: (required) => `const __toolhost_${index}=${required};` });
    for (const [name, as] of pairs) found.exported.push([as, `__toolhost_${index}.${name}`]);
  }
  return { code: lines(all), end: start + all.length };
}

/** Reads `a, b as c`: pairs of names, or undefined. */
function specifiers(list) {
  const pairs = [];
  for (const one of list.replace(/\/\*[^]*?\*\/|\/\/.*/g, '').split(',')) {
    if (one.trim() === '') continue;
    const match = SPECIFIER.exec(one.trim());
    if (!match || match[1] === 'type') return undefined;
    pairs.push([match[1], match[2] ?? match[1]]);
  }
  return pairs;
}

/** Tells whether the name of a declaration at the beginning of a line cannot be assigned to. */
function isConstant(text, name) {
  const escaped = name.replaceAll('$', '\\$');
  return new RegExp(`^(?:(?:async\\s+)?function\\b\\s*\\*?|class|const)\\s*\\b${escaped}(?![\\w$])`, 'm').test(text);
}

/** The names that `export const a = 1, b = 2` declares besides the first; undefined if it is not sure. */
function constants(text, index) {
  if (!/^\s*=[^=]/.test(text.slice(index, index + 20))) return undefined;
  END_OF_STATEMENT.lastIndex = index;
  const end = END_OF_STATEMENT.exec(text)?.index ?? text.length;
  const statement = text.slice(index, end);
  return SECOND_DECLARATOR.test(statement) ? outerNames(statement) : [];
}

// The next line that begins at its margin with what begins a statement.
const END_OF_STATEMENT = /\n(?=[^\s)\]}.,?:&|+*=<>-])/g;
const DECLARATOR = sticky(`\\s*(${NAME})\\s*=(?![=>])`);
const BRACKET = /["'`/()[\]{},;]/g;
const SIMPLE_TEMPLATE = /`(?:[^`\\$]|\\[^]|\$(?!\{)|\$\{[^`{}]*\})*`/y;

/** The names behind commas that stand outside of all brackets; undefined if it is not sure. */
function outerNames(text) {
  const names = [];
  let depth = 0;
  for (let at = 0; at !== undefined; ) {
    BRACKET.lastIndex = at;
    const match = BRACKET.exec(text);
    if (!match) return names;
    const index = match.index;
    at = index + 1;
    if (match[0] === '/') at = endOfSlash(text, index);
    else if (`"'\``.includes(match[0])) {
      const form = match[0] === '`' ? SIMPLE_TEMPLATE : match[0] === "'" ? SINGLE : DOUBLE;
      form.lastIndex = index;
      at = form.test(text) ? form.lastIndex : undefined;
    } else if ('([{'.includes(match[0])) depth++;
    else if (')]}'.includes(match[0])) depth--;
    else if (depth === 0 && match[0] === ';') return names;
    else if (depth === 0) {
      DECLARATOR.lastIndex = at;
      const declarator = DECLARATOR.exec(text);
      if (!declarator) return undefined;
      names.push(declarator[1]);
    }
  }
  return undefined;
}

const CODE = /["'`/]|^[ \t]*(?:import|export)\b(?!\s*[:(=.,])/gm;
const CODE_WITH_BRACES = /["'`/{}]/g;
const SINGLE = /'(?:[^'\\\n]|\\[^])*'/y;
const DOUBLE = /"(?:[^"\\\n]|\\[^])*"/y;
const TEMPLATE = /\\|`|\$\{/g;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/\w*/y;
const BEFORE_REGEX = /(?:^|[^\w$.])(?:return|typeof|case|in|of|do|else|void|delete|throw|new|instanceof|yield|await)$/;

/** Finds where statements begin that only a module has; undefined if it cannot be sure. */
function moduleStatements(text) {
  const found = [];
  // One entry for each template that the lexer is in: how many braces are open in its `${`.
  const templates = [];
  let at = 0;
  while (at < text.length) {
    const marks = templates.length > 0 ? CODE_WITH_BRACES : CODE;
    marks.lastIndex = at;
    const match = marks.exec(text);
    if (!match) return templates.length > 0 ? undefined : found;
    const index = match.index;
    switch (match[0]) {
      case "'":
      case '"': {
        const string = match[0] === "'" ? SINGLE : DOUBLE;
        string.lastIndex = index;
        if (!string.test(text)) return undefined;
        at = string.lastIndex;
        break;
      }
      case '{':
        templates[templates.length - 1]++;
        at = index + 1;
        break;
      case '}':
        if (templates[templates.length - 1]-- > 0) at = index + 1;
        else {
          templates.pop();
          at = endOfTemplate(text, index + 1, templates);
        }
        break;
      case '`':
        at = endOfTemplate(text, index + 1, templates);
        break;
      case '/':
        at = endOfSlash(text, index);
        break;
      default:
        found.push(index + match[0].length - 6);
        at = index + match[0].length;
    }
    if (at === undefined) return undefined;
  }
  return templates.length > 0 ? undefined : found;
}

/** Where a template ends, or where its next `${` is open. */
function endOfTemplate(text, start, templates) {
  TEMPLATE.lastIndex = start;
  for (let match = TEMPLATE.exec(text); match; match = TEMPLATE.exec(text)) {
    if (match[0] === '\\') TEMPLATE.lastIndex++;
    else {
      if (match[0] === '${') templates.push(0);
      return TEMPLATE.lastIndex;
    }
  }
  return undefined;
}

/** Where a comment, a regular expression or a division ends. */
function endOfSlash(text, index) {
  const next = text[index + 1];
  if (next === '/') {
    const end = text.indexOf('\n', index);
    return end < 0 ? text.length : end;
  }
  if (next === '*') {
    const end = text.indexOf('*/', index + 2);
    return end < 0 ? undefined : end + 2;
  }
  let before = index - 1;
  while (before >= 0 && ' \t\r\n'.includes(text[before])) before--;
  const mark = before < 0 ? ';' : text[before];
  const isRepeated = (mark === '+' || mark === '-') && text[before - 1] === mark;
  const ambiguous = mark === ')' || mark === '}' || mark === '/' || isRepeated;
  if (ambiguous) {
    // A regular expression would end on this line.
    const end = text.indexOf('\n', index);
    return text.slice(index + 1, end < 0 ? undefined : end).includes('/') ? undefined : index + 1;
  }
  const isWord = /[\w$]/.test(mark);
  if (isWord && !BEFORE_REGEX.test(text.slice(Math.max(0, before - 11), before + 1))) return index + 1;
  if (mark === ']' || mark === '"' || mark === "'" || mark === '`') return index + 1;
  REGEX.lastIndex = index;
  return REGEX.test(text) ? REGEX.lastIndex : undefined;
}
