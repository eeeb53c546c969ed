// Blocks: paragraphs, headings, lists, quotes, code and tables, out of tags and text.
//
// There is no tree. What is open stands in a stack of bounded depth, so neither a thousand nested
// quotes nor tags that are never closed cost more than their length.

import { Inline, startEscaped } from './inline.js';
import { Table } from './table.js';
import { tokenize } from './tokens.js';

/** How many lists and quotes may be open inside of each other; those beyond are read as one. */
const DEPTH_MAX = 10;

const FORMATS = {
  b: 'strong', strong: 'strong', i: 'em', em: 'em', cite: 'em', dfn: 'em', var: 'em',
  del: 'del', s: 'del', strike: 'del', code: 'code', kbd: 'code', samp: 'code', tt: 'code',
};
const SKIPPED = new Set([
  'script', 'style', 'template', 'svg', 'math', 'object', 'canvas', 'audio', 'video', 'noscript', 'select', 'title', 'iframe', 'xmp',
  'noembed', 'noframes', 'textarea',
]);
const AROUND_MAIN = new Set(['nav', 'header', 'footer', 'aside', 'form', 'button', 'dialog', 'menu']);
const BLOCKS = new Set([
  'address', 'article', 'aside', 'body', 'center', 'details', 'dialog', 'dir', 'div', 'dd', 'dl', 'dt', 'fieldset', 'figcaption',
  'figure', 'footer', 'form', 'head', 'header', 'hgroup', 'html', 'legend', 'main', 'menu', 'nav', 'p', 'search', 'section', 'summary',
]);
const LISTS = new Set(['ul', 'ol', 'dir', 'menu']);

/** Converts HTML to Markdown. */
export function markdown(html, options) {
  const document = new Document(options);
  tokenize(html, document);
  return document.end();
}

class Document {
  constructor(options) {
    this.options = options;
    this.inline = new Inline();
    /** What is open: a root, and in it quotes, lists, items, and cells of tables. */
    this.stack = [{ kind: 'root', blocks: [] }];
    /** How many elements of a name were opened too deep. */
    this.tooDeep = { blockquote: 0, list: 0, table: 0 };
    this.skipped = undefined;
    this.mainDepth = 0;
    this.heading = 0;
    this.pre = undefined;
  }

  get top() {
    return this.stack.at(-1);
  }

  text(text) {
    if (this.skipped) return;
    if (this.pre) this.pre.text.push(text);
    else if (this.top.kind !== 'table' && this.top.kind !== 'list') this.inline.text(text);
    else if (/\S/.test(text)) {
      // Text between rows or items belongs nowhere; it is better kept than lost.
      if (this.top.kind === 'list') this.openItem();
      this.inline.text(text);
    }
  }

  open(name, attributes) {
    if (this.skipped) {
      if (this.skipped.name === name) this.skipped.depth++;
      return;
    }
    if (name === 'main' || name === 'article') this.mainDepth++;
    if (SKIPPED.has(name) || this.isAroundMain(name)) {
      this.skipped = { name, depth: 1 };
      return;
    }
    if (this.pre) return this.openInPre(name, attributes);
    if (/^h[1-6]$/.test(name)) return this.openHeading(Number(name[1]));
    if (FORMATS[name]) return this.inline.open({ kind: FORMATS[name] });
    if (LISTS.has(name)) return this.openList(name, attributes);
    if (BLOCKS.has(name)) this.flush();
    switch (name) {
      case 'a':
        return this.openLink(attributes);
      case 'img':
        return this.image(attributes);
      case 'br':
        return this.inline.lineBreak();
      case 'wbr':
        return undefined;
      case 'hr':
        return this.block('---');
      case 'input':
        return this.input(attributes);
      case 'pre':
      case 'listing':
        this.flush();
        this.pre = { text: [], language: language(attributes), depth: 1 };
        return undefined;
      case 'q':
        return this.inline.text('"');
      case 'li':
        return this.openItem(attributes);
      case 'dt':
        this.inline.close('strong');
        return this.inline.open({ kind: 'strong' });
      case 'dd':
        return this.inline.close('strong');
      case 'blockquote':
        return this.openContainer('blockquote', { kind: 'blockquote', blocks: [] });
      case 'table':
      case 'caption':
      case 'thead':
      case 'tbody':
      case 'tfoot':
      case 'tr':
      case 'td':
      case 'th':
        return this.openTablePart(name, attributes);
      default:
        return undefined;
    }
  }

  close(name) {
    if (this.skipped) {
      if (this.skipped.name === name && --this.skipped.depth === 0) this.skipped = undefined;
      return;
    }
    if (this.pre) {
      if (name === 'pre' || name === 'listing') {
        if (--this.pre.depth === 0) this.closePre();
      }
      return;
    }
    if ((name === 'main' || name === 'article') && this.mainDepth > 0) this.mainDepth--;
    if (/^h[1-6]$/.test(name)) this.flush();
    else if (FORMATS[name]) this.inline.close(FORMATS[name]);
    else if (name === 'a') this.inline.close('link');
    else if (name === 'q') this.inline.text('"');
    else if (name === 'br') this.inline.lineBreak();
    else if (LISTS.has(name)) this.closeContainer('list', 'list');
    else if (name === 'li') this.closeItem();
    else if (name === 'blockquote') this.closeContainer('blockquote', 'blockquote');
    else if (['table', 'caption', 'thead', 'tbody', 'tfoot', 'tr', 'td', 'th'].includes(name)) this.closeTablePart(name);
    else if (name === 'dt') {
      this.inline.close('strong');
      this.flush();
    } else if (BLOCKS.has(name)) this.flush();
  }

  /** The header of an article often has its title. */
  isAroundMain(name) {
    if (!this.options.isMainOnly || !AROUND_MAIN.has(name)) return false;
    return this.mainDepth === 0 || (name !== 'header' && name !== 'footer');
  }

  end() {
    if (this.pre) this.closePre();
    this.flush();
    while (this.stack.length > 1) this.pop();
    return this.top.blocks.map(({ text }) => text).join('\n\n');
  }

  // Blocks.

  /** Ends the block in the making. */
  flush() {
    const level = this.heading;
    this.heading = 0;
    const isPlain = !this.inline.hasContent;
    const text = this.inline.take();
    if (isPlain || text === '') return;
    if (level === 0) this.block(startEscaped(text), 'text');
    else this.block(`${'#'.repeat(level)} ${text.replace(/\s*\n\s*/g, ' ').replace(/(#+)$/, '\\$1')}`);
  }

  block(text, kind = 'other') {
    if (this.inline.hasContent) this.flush();
    const { top } = this;
    if (top.kind === 'table') top.table.loose.push(text);
    else if (top.kind === 'list') top.items.push({ text, isLoose: false });
    else top.blocks.push({ text, kind });
  }

  openHeading(level) {
    this.flush();
    this.heading = level;
  }

  closePre() {
    const { text, language } = this.pre;
    this.pre = undefined;
    const code = text.join('').replace(/\r\n?/g, '\n').replace(/^\n/, '').trimEnd();
    if (code === '') return;
    const longest = Math.max(2, ...(code.match(/`{3,}/g) ?? []).slice(0, 1_000).map((marks) => marks.length));
    const fence = '`'.repeat(longest + 1);
    this.block(`${fence}${language}\n${code}\n${fence}`);
  }

  openInPre(name, attributes) {
    if (name === 'pre' || name === 'listing') this.pre.depth++;
    else if (name === 'br') this.pre.text.push('\n');
    else if (name === 'code') this.pre.language ||= language(attributes);
  }

  // Containers.

  /** Opens a quote or a list, unless it is too deep. */
  openContainer(word, frame) {
    this.flush();
    if (this.stack.length > DEPTH_MAX * 2) this.tooDeep[word]++;
    else this.stack.push(frame);
  }

  closeContainer(word, kind) {
    this.flush();
    if (this.tooDeep[word] > 0) this.tooDeep[word]--;
    else this.closeTo(kind);
  }

  /** Closes the innermost frame of a kind, and what is open in it; a cell closes only with its table. */
  closeTo(kind) {
    let index = this.stack.length - 1;
    while (index > 0 && this.stack[index].kind !== kind && this.stack[index].kind !== 'cell') index--;
    if (this.stack[index].kind !== kind) return false;
    while (this.stack.length > index) this.pop();
    return true;
  }

  /** Closes the innermost frame: what is in it becomes a block of the one around it. */
  pop() {
    this.flush();
    const frame = this.stack.pop();
    switch (frame.kind) {
      case 'blockquote':
        if (frame.blocks.length > 0) this.block(prefixed(joined(frame.blocks, true), '> '));
        break;
      case 'item':
        this.top.items.push(item(frame));
        break;
      case 'list':
        if (frame.items.length > 0) this.block(list(frame), 'list');
        break;
      case 'cell':
        frame.table.cell(frame);
        break;
      case 'table':
        for (const text of frame.table.blocks()) this.block(text);
        break;
    }
  }

  openList(name, attributes) {
    const start = Number.parseInt(attributes('start') ?? '1', 10);
    const next = start >= 0 && start < 1e9 ? start : 1;
    this.openContainer('list', { kind: 'list', isOrdered: name === 'ol', next, items: [] });
  }

  openItem() {
    this.flush();
    if (this.tooDeep.list > 0) return;
    // An item that is still open ends here, unless a list, a quote or a cell was opened in it.
    if (this.top.kind === 'item') this.pop();
    else if (this.top.kind === 'blockquote' && this.stack.some(({ kind }) => kind === 'item')) this.closeTo('item');
    if (this.top.kind !== 'list') {
      if (this.stack.length > DEPTH_MAX * 2) return;
      this.stack.push({ kind: 'list', isOrdered: false, next: 1, items: [] });
    }
    this.stack.push({ kind: 'item', blocks: [], list: this.top });
  }

  closeItem() {
    this.flush();
    if (this.tooDeep.list > 0) return;
    // Not an item of a list that is around the one which is open.
    const index = this.stack.findLastIndex(({ kind }) => kind === 'item' || kind === 'list' || kind === 'cell');
    if (index > 0 && this.stack[index].kind === 'item') this.closeTo('item');
  }

  // Tables.

  openTablePart(name, attributes) {
    this.flush();
    if (name === 'table') {
      const isInside = this.stack.some(({ kind }) => kind === 'table');
      // A table in a table is read as text.
      if (isInside) this.tooDeep.table++;
      else this.stack.push({ kind: 'table', table: new Table() });
      return;
    }
    const frame = this.stack.findLast(({ kind }) => kind === 'table');
    if (!frame || this.tooDeep.table > 0) return;
    while (this.top !== frame) this.pop();
    if (name === 'tr') frame.table.row();
    else if (name === 'thead' || name === 'tbody' || name === 'tfoot') frame.table.section(name);
    else this.stack.push({ kind: 'cell', name, table: frame.table, blocks: [], span: attributes('colspan'), align: alignment(attributes) });
  }

  closeTablePart(name) {
    this.flush();
    if (this.tooDeep.table > 0) {
      if (name === 'table') this.tooDeep.table--;
      return;
    }
    const index = this.stack.findLastIndex(({ kind }) => kind === 'table');
    if (index < 0) return;
    if (name === 'table') while (this.stack.length > index) this.pop();
    else while (this.stack.length > index + 1) this.pop();
  }

  // Inside of a line.

  openLink(attributes) {
    const url = this.options.hasLinks ? this.address(attributes('href')) : undefined;
    // A link that leads nowhere is a format that changes nothing, so that its end finds a beginning.
    this.inline.close('link');
    if (url !== undefined) this.inline.open({ kind: 'link', url, title: attributes('title') });
  }

  image(attributes) {
    const alt = attributes('alt') ?? '';
    const url = this.options.hasImages ? this.address(attributes('src') || attributes('data-src')) : undefined;
    if (url !== undefined) this.inline.image(alt, url, attributes('title'));
    else if (alt !== '') this.inline.text(alt);
  }

  input(attributes) {
    if (attributes('type')?.toLowerCase() !== 'checkbox' || this.top.kind !== 'item') return;
    if (!this.inline.hasContent) this.top.task = attributes('checked') === undefined ? '[ ] ' : '[x] ';
  }

  /** An address as it is written, or absolute; undefined if there is none to follow. */
  address(given) {
    const text = given?.trim();
    if (!text || /^(?:javascript|data|vbscript):/i.test(text)) return undefined;
    if (!this.options.base) return text;
    try {
      return new URL(text, this.options.base).href;
    } catch {
      return text;
    }
  }
}

function language(attributes) {
  return /(?:^|\s)(?:language-|lang-|highlight-source-)([\w+#.-]{1,32})/.exec(attributes('class') ?? '')?.[1] ?? '';
}

function alignment(attributes) {
  const [, styled] = /text-align\s*:\s*(left|right|center)/i.exec((attributes('style') ?? '').slice(0, 1_000)) ?? [];
  return (styled ?? attributes('align') ?? '').toLowerCase();
}

/** Lists stand close below the text that they belong to; all else is apart. */
function joined(blocks, isLoose) {
  return blocks.map(({ text, kind }, index) => (index === 0 ? '' : kind === 'list' && !isLoose ? '\n' : '\n\n') + text).join('');
}

function item({ blocks, list, task = '' }) {
  const isLoose = blocks.filter(({ kind }) => kind !== 'list').length > 1;
  const marker = list.isOrdered ? `${list.next++}. ` : '- ';
  const text = task + joined(blocks, isLoose);
  return { text: marker + prefixed(text, ' '.repeat(marker.length)).slice(marker.length), isLoose };
}

function list({ items }) {
  const isLoose = items.some((one) => one.isLoose);
  return items.map(({ text }) => text.trimEnd()).join(isLoose ? '\n\n' : '\n');
}

/** Puts a prefix before each line; before an empty one without the space at its end. */
function prefixed(text, prefix) {
  const short = prefix.trimEnd();
  return text.split('\n').map((line, index) => (line === '' && index > 0 ? short : prefix + line)).join('\n');
}
