// A JavaScript guest without an SDK: counts words, crashes, and tries to reach what it may not.

import { log } from 'toolhost:plugin/log@0.1.0';

export function register() {
  return {
    name: 'words',
    version: '1.0.0',
    tools: [{
      name: 'count_words_js',
      toolset: 'text',
      description: 'Counts the words of a text.',
      parameters: JSON.stringify({
        type: 'object',
        properties: { text: { type: 'string' } },
        required: ['text'],
      }),
      emoji: '🔢',
      requiresEnv: [],
      overrides: false,
      hasCheck: false,
      hasDynamicSchema: false,
      annotations: { readOnly: true },
      examples: [{ arguments: '{"text": "a b"}', expected: '2' }],
      extensions: [],
    }],
    needs: [],
    extensions: [],
  };
}

export async function call(tool, args, context) {
  const { text } = JSON.parse(args);
  if (text === 'crash') throw new Error('the script crashed');
  if (text === 'fail') throw { tag: 'failed', val: 'the script says no' };
  let answer;
  if (text === 'peek') {
    answer = { network: false };
    try {
      await fetch('http://127.0.0.1:80/');
      answer.network = true;
    } catch (error) {
      answer.error = String(error);
    }
  } else {
    log('info', 'counting');
    answer = { words: text.split(/\s+/).filter(Boolean).length };
  }
  return { content: [{ tag: 'json', val: JSON.stringify(answer) }], extensions: [] };
}

export const availability = { check(tool) {} };
export const schemaOverride = { describe(tool, available) {} };
export const hooks = {
  request(call) {},
  preCall(call) { return { tag: 'allow' }; },
  postCall(call, outcome) {},
  transform(call, outcome) {},
};
