// {{name}}: a plugin for toolhost.

import { plugin, tool, ToolError } from 'toolhost-sdk';

plugin('{{name}}', '0.1.0', { toolset: 'text' });

// The comment is what a model reads: what the tool does, and what each argument means.

/**
 * Counts the words of a text.
 *
 * @param {string} text The text.
 * @param {integer} [min_length=1] Count words of at least this many characters.
 */
export function {{ident}}_count({ text, min_length = 1 }) {
  const words = text.split(/\s+/).filter((word) => word.length >= min_length);
  if (words.length === 0) throw new ToolError('the text has no such word; give another text, or a smaller `min_length`');
  return { words: words.length };
}

tool({{ident}}_count, {
  emoji: '🔢',
  readOnly: true,
  examples: [{ arguments: { text: 'a bc' }, expected: '2' }],
});
