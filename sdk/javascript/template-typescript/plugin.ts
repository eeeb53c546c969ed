// {{name}}: a plugin for toolhost.

import { plugin, tool, ToolError } from 'toolhost-sdk';

plugin('{{name}}', '0.1.0', { toolset: 'text' });

// The comments are what a model reads: what the tool does, and what each argument means.

interface Arguments {
  /** The text. */
  text: string;
  /** Count words of at least this many characters. */
  min_length?: number;
}

/** Counts the words of a text. */
export function {{ident}}_count({ text, min_length = 1 }: Arguments): { words: number } {
  const words = text.split(/\s+/).filter((word) => word.length >= min_length);
  if (words.length === 0) throw new ToolError('the text has no such word; give another text, or a smaller `min_length`');
  return { words: words.length };
}

tool({{ident}}_count, {
  emoji: '🔢',
  readOnly: true,
  examples: [{ arguments: { text: 'a bc' }, expected: '2' }],
});
