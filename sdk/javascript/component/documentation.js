// What the source of a script's modules says about its functions.

import { documentationOf } from '../src/jsdoc.js';

/** Returns it by name; of two functions with one name, neither can be asked for. */
export function documentation(script) {
  const found = {};
  for (const { path, text } of script.modules.values()) {
    for (const [name, said] of Object.entries(documentationOf(path, text))) {
      const other = found[name];
      found[name] = other === undefined ? said : {
        where: said.where,
        problem: `two functions are called \`${name}\` (${other.where} and ${said.where}); rename one, or give description and parameters`,
      };
    }
  }
  return found;
}
