// The loader behind `toolhost-sdk/typescript`: types are taken out, as in a component.

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

import { transform } from 'sucrase';

/** `./lib` and `./lib.js` may be `./lib.ts`. */
export async function resolve(specifier, context, next) {
  if (/^\.\.?\//.test(specifier) && context.parentURL?.startsWith('file:')) {
    const found = [specifier.replace(/\.js$/, '.ts'), `${specifier}.ts`, `${specifier}.js`].find((one) => {
      const url = new URL(one, context.parentURL);
      return one !== specifier && existsSync(fileURLToPath(url));
    });
    const isMissing = !existsSync(fileURLToPath(new URL(specifier, context.parentURL)));
    if (found && isMissing) return next(found, context);
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return next(url, context);
  const { code } = transform(await readFile(fileURLToPath(url), 'utf8'), {
    transforms: ['typescript'],
    disableESTransforms: true,
    filePath: fileURLToPath(url),
  });
  return { format: 'module', source: code, shortCircuit: true };
}
