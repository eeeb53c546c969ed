// Cuts HTML into text and tags. It never fails, and it takes a time that grows with the length of
// the text alone: every search either moves on or has reached the end.

import { decoded } from './entities.js';

const TAG = /<(\/?)([a-zA-Z][^\s/>]*)/y;
const ATTRIBUTE = /[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"'][^\s>]*)))?/y;
/** What is no HTML up to its end tag, whatever it looks like. */
const RAW = new Set(['script', 'style', 'textarea', 'title', 'xmp', 'iframe', 'noembed', 'noframes']);

/**
 * Calls `on.text(text)`, `on.open(name, attributes)` and `on.close(name)` for what is in the HTML.
 *
 * Attributes are read when they are asked for: `attributes('href')` is a text or undefined.
 */
export function tokenize(html, on) {
  let at = 0;
  while (at < html.length) {
    const start = html.indexOf('<', at);
    if (start < 0) break;
    if (start > at) on.text(decoded(html.slice(at, start)));
    TAG.lastIndex = start;
    const match = TAG.exec(html);
    if (match) {
      at = tag(html, match, on);
    } else if (html.startsWith('<!--', start)) {
      at = after(html, '-->', start + 2);
    } else if (/[!?/]/.test(html[start + 1] ?? '')) {
      at = after(html, '>', start);
    } else {
      on.text('<');
      at = start + 1;
    }
  }
  if (at < html.length) on.text(decoded(html.slice(at)));
}

/** Where the reading goes on behind `end`, which may be missing. */
function after(html, end, from) {
  const found = html.indexOf(end, from);
  return found < 0 ? html.length : found + end.length;
}

/** Reads a tag, and the text of an element that holds no HTML; returns where the reading goes on. */
function tag(html, [all, slash, written], on) {
  const name = written.toLowerCase();
  const start = TAG.lastIndex;
  let at = start;
  while (at < html.length && html[at] !== '>') {
    ATTRIBUTE.lastIndex = at;
    if (ATTRIBUTE.test(html)) at = ATTRIBUTE.lastIndex;
    else {
      // Slashes and spaces before the end, or a sign where a name belongs.
      at = /[\s/]/.test(html[at]) ? skipSpace(html, at) : at + 1;
    }
  }
  // A tag that the text ends in is none.
  if (at >= html.length) return html.length;
  const end = at + 1;
  if (slash) {
    on.close(name);
    return end;
  }
  on.open(name, (wanted) => attribute(html, start, at, wanted));
  return RAW.has(name) ? rawText(html, name, end, on) : end;
}

function skipSpace(html, at) {
  SPACE.lastIndex = at;
  SPACE.test(html);
  return SPACE.lastIndex;
}

const SPACE = /[\s/]+/y;

function attribute(html, start, end, wanted) {
  ATTRIBUTE.lastIndex = start;
  while (ATTRIBUTE.lastIndex < end) {
    const from = ATTRIBUTE.lastIndex;
    const match = ATTRIBUTE.exec(html);
    if (!match) {
      ATTRIBUTE.lastIndex = from + 1;
      continue;
    }
    const [, name, double, single, bare] = match;
    if (name.toLowerCase() === wanted) return decoded(double ?? single ?? bare ?? '');
  }
  return undefined;
}

function rawText(html, name, start, on) {
  const end = new RegExp(`</${name}(?=[\\s/>])`, 'gi');
  end.lastIndex = start;
  const found = end.exec(html)?.index ?? html.length;
  if (name === 'textarea' || name === 'title') on.text(decoded(html.slice(start, found)));
  return found;
}
