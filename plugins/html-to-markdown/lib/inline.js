// What stands in one block: text, emphasis, code, links, images and line breaks.

/** How many formats may be open inside of each other; those beyond change nothing. */
const FORMATS_MAX = 8;

const WRAPPED = { strong: '**', em: '*', del: '~~' };

/** The inline content of the block in the making. */
export class Inline {
  constructor() {
    /** The formats that are open: `{ kind, url, title }`. */
    this.formats = [];
    this.clear();
  }

  clear() {
    this.pieces = this.formats.map((format) => ({ open: format }));
    this.hasContent = false;
  }

  text(text) {
    this.pieces.push({ text });
    this.hasContent ||= /\S/.test(text);
  }

  image(alt, url, title) {
    this.pieces.push({ image: { alt, url, title } });
    this.hasContent = true;
  }

  lineBreak() {
    this.pieces.push({ isBreak: true });
  }

  open(format) {
    if (this.formats.length >= FORMATS_MAX) return;
    this.formats.push(format);
    this.pieces.push({ open: format });
  }

  /** Closes the last format of a kind; those inside of it are closed and opened again. */
  close(kind) {
    const index = this.formats.findLastIndex((format) => format.kind === kind);
    if (index < 0) return;
    const inner = this.formats.splice(index).slice(1);
    for (let count = 0; count <= inner.length; count++) this.pieces.push({ isClose: true });
    for (const format of inner) this.open(format);
  }

  /** Returns the content as Markdown, and begins anew with the formats that are still open. */
  take() {
    const frames = [{ parts: [] }];
    for (const piece of this.pieces) {
      if (piece.open) frames.push({ format: piece.open, parts: [], isCode: frames.at(-1).isCode || piece.open.kind === 'code' });
      else if (piece.isClose) closeFrame(frames);
      else frames.at(-1).parts.push(written(piece, frames.at(-1).isCode));
    }
    while (frames.length > 1) closeFrame(frames);
    this.clear();
    return tidied(frames[0].parts.join(''));
  }
}

function closeFrame(frames) {
  const { format, parts } = frames.pop();
  const text = parts.join('');
  const outer = frames.at(-1);
  outer.parts.push(wrapped(format, text, outer));
}

function wrapped(format, text, outer) {
  const inner = text.trim();
  const before = /^\s/.test(text) ? ' ' : '';
  const after = /\s$/.test(text) ? ' ' : '';
  if (inner === '' || outer.isCode) return text;
  const isInside = (kind) => outer.format?.kind === kind;
  if (format.kind === 'code') return before + code(inner) + after;
  if (format.kind === 'link') return `${before}[${inner}](${target(format.url)}${titled(format.title)})${after}`;
  const mark = WRAPPED[format.kind];
  return mark && !isInside(format.kind) ? before + mark + inner + mark + after : text;
}

function written(piece, isCode) {
  if (piece.isBreak) return isCode ? ' ' : '\n';
  if (piece.text !== undefined) {
    const text = piece.text.replace(/[\s\u00a0]+/g, ' ');
    return isCode ? text : escaped(text);
  }
  const { alt, url, title } = piece.image;
  const text = escaped(alt.replace(/\s+/g, ' ').trim());
  return url === undefined ? text : `![${text}](${target(url)}${titled(title)})`;
}

/** Escapes what Markdown would read as more than text. */
function escaped(text) {
  return text
    .replace(/[\\`*[\]]|<(?=[a-zA-Z/!?])|&(?=#?\w{1,12};)|~(?=~)/g, '\\$&')
    .replace(/_+/g, (marks, at, all) => {
      const isInWord = /\w/.test(all[at - 1] ?? '') && /\w/.test(all[at + marks.length] ?? '');
      return isInWord ? marks : marks.replaceAll('_', '\\_');
    });
}

function code(text) {
  const longest = Math.max(0, ...(text.match(/`+/g) ?? []).slice(0, 1_000).map((marks) => marks.length));
  const fence = '`'.repeat(longest + 1);
  const space = text.startsWith('`') || text.endsWith('`') ? ' ' : '';
  return fence + space + text + space + fence;
}

function target(url) {
  const clean = url.replace(/\s/g, '%20').replace(/[<>]/g, encodeURIComponent);
  return /[()]/.test(clean) ? `<${clean}>` : clean;
}

function titled(title) {
  const text = title?.replace(/\s+/g, ' ').trim();
  return text ? ` "${text.replace(/["\\]/g, '\\$&')}"` : '';
}

/** Collapses space over the borders of formats, and writes line breaks. */
function tidied(text) {
  const lines = text.replace(/ {2,}/g, ' ').split('\n').map((line) => line.trim());
  while (lines.length > 0 && lines.at(-1) === '') lines.pop();
  while (lines[0] === '') lines.shift();
  // Two breaks in a row are a paragraph to whoever wrote them.
  const kept = lines.filter((line, index) => line !== '' || lines[index - 1] !== '');
  return kept.map((line, index) => (index < kept.length - 1 && line !== '' && kept[index + 1] !== '' ? `${line}  ` : line)).join('\n');
}

/** Escapes what would be a heading, a list, a quote or a rule where a block begins. */
export function startEscaped(block) {
  return block.replace(/^(?:([-+])(?=\s|$)|(#{1,6})(?=\s|$)|(>)|(\d{1,9})([.)])(?=\s|$)|(-|=)(?=\6* *$))/gm, (all, ...groups) =>
    groups[3] === undefined ? `\\${all}` : `${groups[3]}\\${groups[4]}`,
  );
}
