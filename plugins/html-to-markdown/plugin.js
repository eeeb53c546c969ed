// HTML as Markdown: the example of a script that is a folder. Read on in lib/: tokens.js cuts the
// text into tags and text, document.js turns these into blocks, inline.js writes what is in a line.

import { BadArguments, plugin, tool } from 'toolhost-sdk';

import { markdown } from './lib/document.js';

plugin('html-to-markdown', '1.0.0', { toolset: 'text' });

/**
 * Converts HTML to Markdown: headings, paragraphs, emphasis, links, images, lists, code, quotes and
 * tables. Scripts, styles and comments are left out. Broken HTML is read as well as it can be.
 *
 * @param {string} html The HTML, a whole page or a part of one.
 * @param {string} [base_url] The address of the page, such as `https://example.com/docs/`: relative
 *   links and images become absolute.
 * @param {boolean} [main_only=false] Leave out navigation, headers, footers, sidebars and forms.
 * @param {boolean} [links=true] Keep the addresses of links; if false, only their text.
 * @param {boolean} [images=true] Keep images; if false, only their alternative text.
 */
export function htmlToMarkdown({ html, base_url, main_only = false, links = true, images = true }) {
  const options = { base: base(base_url), isMainOnly: main_only, hasLinks: links, hasImages: images };
  return markdown(html, options);
}

function base(address) {
  if (address === undefined) return undefined;
  try {
    return new URL(address);
  } catch {
    throw new BadArguments('/base_url', `\`${address}\` is no address; give one such as https://example.com/docs/`);
  }
}

tool(htmlToMarkdown, {
  emoji: '📝',
  readOnly: true,
  idempotent: true,
  openWorld: false,
  examples: [
    { arguments: { html: '<h1>Tea</h1><p>Is <b>hot</b>.</p>' }, expected: '# Tea\n\nIs **hot**.' },
    {
      arguments: { html: '<ul><li><a href="cup">Cup</a><li>Pot</ul>', base_url: 'https://example.com/tea/' },
      expected: '- [Cup](https://example.com/tea/cup)\n- Pot',
    },
    {
      arguments: { html: '<table><tr><th>Leaf<th>Minutes<tr><td>Green<td>2</table>' },
      expected: '| Leaf | Minutes |\n| --- | --- |\n| Green | 2 |',
    },
  ],
});
