// What is done once while a component is built, so that no instance has to: SpiderMonkey compiles a
// function when it is first called, and what it has compiled is part of the component.

import { host } from '../src/host.js';
import * as plugin from '../src/plugin.js';
import { documentation } from './documentation.js';
import { Script } from './load.js';

const SAMPLE = `
import { BadArguments, ToolError, json, need, output, plugin, structured, text, tool } from 'toolhost-sdk';
import { half as part } from './lib/half.js';
// A comment with a 'quote'.
plugin('warm', '1.0.0', { toolset: 'text' });
need.http(['api.example.com'], { reason: 'none' });
/**
 * Counts.
 * @param {string} text The text.
 * @param {number} [top=3] How many.
 * @param {'a' | 'b'} [mode] Which.
 * @param {string[]} [names] Names.
 */
export function countWords({ text, top = 3, mode, names }) {
  return { words: text.split(/\\\\s+/g).length / 2, mode, names, text: \`\${text} \${part(top)}\` };
}
tool(countWords, { readOnly: true, emoji: 'x', examples: [{ arguments: { text: 'a' }, expected: '1' }] });
export const upper = tool({
  name: 'upper',
  description: 'Writes in capitals.',
  parameters: { type: 'object', properties: { text: { type: 'string', default: 'a' } }, required: ['text'] },
  output: { type: 'object', properties: {} },
}, async ({ text: given }, context) => {
  if (given === 'fail') throw new ToolError('no');
  return structured({ given }, output(text(given), json([1])));
});
export { part };
`;

/** Loads, registers and calls a small script, and forgets it. */
export function warm(preloaded) {
  const script = new Script(
    [
      { path: 'warm.js', text: SAMPLE },
      { path: 'lib/half.js', text: '/** Halves. */\nexport const half = (value) => value / 2;\nexport default half;\n' },
    ],
    preloaded,
  );
  const { documentation: before, place } = host;
  const all = documentation(script);
  host.documentation = (name) => all[name];
  host.place = (file, line) => script.place(file, line);
  script.load();
  plugin.registration('warm');
  const context = { remainingMs: 1, extensions: [] };
  const ignore = () => {};
  plugin.call('count_words', '{"text":"a b"}', context).then(ignore, ignore);
  plugin.call('upper', '{"text":"a b"}', context).then(ignore, ignore);
  plugin.call('upper', '{"text":"fail"}', context).then(ignore, ignore);
  plugin.forget();
  host.documentation = before;
  host.place = place;
}
