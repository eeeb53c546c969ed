// Run with `node --test` after `npm install --no-save --install-links ../../sdk/javascript`.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call, checkExamples, registration } from 'toolhost-sdk/testing';

import { htmlToMarkdown } from './plugin.js';

function check(html, expected, options = {}) {
  assert.equal(htmlToMarkdown({ html, ...options }), expected);
}

test('the examples hold', checkExamples);

test('the arguments are what the comment says', () => {
  const [tool] = registration().tools;
  assert.equal(tool.name, 'html_to_markdown');
  assert.deepEqual(tool.parameters.required, ['html']);
  assert.deepEqual(Object.keys(tool.parameters.properties), ['html', 'base_url', 'main_only', 'links', 'images']);
});

test('text', () => {
  check('<p>a <b> bold </b>text<i>x</i></p>', 'a **bold** text*x*');
  check('<p>one\n  two&nbsp;three</p>four', 'one two three\n\nfour');
  check('l1<br>l2<br/><br><br>l3', 'l1  \nl2\n\nl3');
  check('<p>x <code>a`b *c*</code> <del>old</del></p>', 'x ``a`b *c*`` ~~old~~');
  check('a<hr>b', 'a\n\n---\n\nb');
  check('<h2>a<br>b #</h2><h6>c</h6>', '## a b \\#\n\n###### c');
  check('', '');
});

test('what Markdown would read as more than text is escaped', () => {
  check('1. no<br># no<br>- no<br>&gt; no<br>---', '1\\. no  \n\\# no  \n\\- no  \n\\> no  \n\\---');
  check('a_b_c _x_ *y* [z] &lt;b&gt; &amp;amp; `', 'a_b_c \\_x\\_ \\*y\\* \\[z\\] \\<b> \\&amp; \\`');
});

test('entities', () => {
  check('&eacute;&#233;&#xE9;&#150;&alpha;&Omega;&copy &lt;&unknown;&#0;', 'ééé–αΩ© <\\&unknown;\ufffd');
});

test('lists', () => {
  check('<ul><li>a<ul><li>b<li>c</ul><li>d</ul>', '- a\n  - b\n  - c\n- d');
  check('<ol start="9"><li>x<li>y<p>z</p></ol>', '9. x\n\n10. y\n\n    z');
  check('<ul><li><input type=checkbox checked>done<li><input type=checkbox> todo</ul>', '- [x] done\n- [ ] todo');
  check('<ul><li><pre>a\n\nb</pre></ul>', '- ```\n  a\n\n  b\n  ```');
  check('<dl><dt>T<dd>D</dl>', '**T**\n\nD');
});

test('quotes and code', () => {
  check('<blockquote><p>a<p>b<blockquote>c</blockquote></blockquote>d', '> a\n>\n> b\n>\n> > c\n\nd');
  check('<pre><code class="language-js">\nif (a &lt; b) {}\n```\n</code></pre>', '````js\nif (a < b) {}\n```\n````');
});

test('links and images', () => {
  const html = '<a href="../a b(1)" title="T">x</a> <img src="/i.png" alt="I"> <a href="javascript:x()">js</a> <a>no</a>';
  check(html, '[x](<../a%20b(1)> "T") ![I](/i.png) js no');
  check(html, '[x](<https://e.org/a%20b(1)> "T") ![I](https://e.org/i.png) js no', { base_url: 'https://e.org/d/e' });
  check(html, 'x I js no', { links: false, images: false });
  check('<a href="/x"><h2>Head</h2><p>Para</a>', '## [Head](/x)\n\n[Para](/x)');
});

test('tables', () => {
  check(
    '<table><caption>C</caption><thead><tr><th align=right>A<th>B|</thead><tr><td>1<td>2<p>3</table>',
    'C\n\n| A | B\\| |\n| ---: | --- |\n| 1 | 2<br>3 |',
  );
  check('<table><tr><td>a<td>b<tr><td colspan=2>c</table>', '|  |  |\n| --- | --- |\n| a | b |\n| c |  |');
  check('<table><tr><td>for its looks<tr><td><ul><li>x</ul></table>', 'for its looks\n\n- x');
  check('<table><tr><td>a<td><table><tr><td>b<td>c</table><tr><td>d<td>e</table>', '|  |  |\n| --- | --- |\n| a | b<br>c |\n| d | e |');
});

test('what is no text is left out', () => {
  check('<title>T</title><script>if (a<b) "</p>"</script><style>p{}</style><!-- <p>c</p> --><svg><text>s</text></svg><p>ok', 'ok');
  check('<nav>n</nav><header>h</header><main><header><h1>T</h1></header><p>x</main><footer>f</footer>', '# T\n\nx', { main_only: true });
});

test('broken HTML is read as well as it can be', () => {
  check('<p>a <b>b<p>c</b> d</div></ul></td>', 'a **b**\n\n**c** d');
  check('<b><i>x</b> y</i>', '***x*** *y*');
  check('a < b <3 <>x <p x="a>b">in', 'a < b <3 <>x\n\nin');
  check('text<a href="', 'text');
  check('<!-- never ends <p>x', '');
  check('<li>x<li>y', '- x\n- y');
});

test('an address that is none is refused', async () => {
  await assert.rejects(call(htmlToMarkdown, { html: '', base_url: 'x' }), { code: 'bad-arguments', path: '/base_url' });
});

// The times are generous: what is bounded takes less than a second, what is not takes minutes.
test('a megabyte of anything takes a bounded time', { timeout: 60_000 }, () => {
  const pieces = [
    '<blockquote>', '<ul><li>', '<div>', '<b>', '<b><i>x</b>', '<a href=x>y', '<table><tr><td>', '<td>', '<li>', '</ul>', '<', '<!', '<a ',
    '<a b="', "<a b='", '<a b=c ', '&', '&amp', '`', '*', '_', '_a', '[', ' ', '\n', '<br>', '<pre>', '<script>', '</script', '<!--', '# ', '1. ',
    '<h1>', '<p>word ', '<code>`', '\\', '-', '=', '&#x', '<img alt="', '<ol start=999999999><li>a', '<input type=checkbox>', 'a\u00a0',
  ];
  for (const piece of pieces) {
    const html = piece.repeat(Math.ceil((1 << 20) / piece.length));
    const text = htmlToMarkdown({ html, base_url: 'https://example.com/' });
    assert.ok(text.length < 24 << 20, `${piece}: ${text.length}`);
  }
});
