// The functions of the contract, for the runner and for components that were built of a script.
//
// Nothing may run before the first of them is called: what runs earlier runs when the component
// is built, and every instance would have the same time and the same random numbers.

import { log } from 'toolhost:plugin/log@0.1.0';
import { progress } from 'toolhost:plugin/progress@0.1.0';
import * as kv from 'toolhost:plugin/kv@0.1.0';
import { placeholder, present } from 'toolhost:plugin/secrets@0.1.0';
import { getEnvironment } from 'wasi:cli/environment@0.2.0';
import { getDirectories } from 'wasi:filesystem/preopens@0.2.0';

import { DefinitionError } from '../src/errors.js';
import { fetch } from '../src/fetch.js';
import { host } from '../src/host.js';
import * as plugin from '../src/plugin.js';
import { redirect } from './console.js';
import { Script, ScriptError } from './load.js';

const request = globalThis.fetch;
let script;
let granted;

Object.assign(host, {
  isNative: false,
  log,
  progress,
  kv: { get: kv.get, set: kv.set, delete: kv['delete'], swap: kv.swap, keys: kv.keys },
  secrets: { present, placeholder },
  fetch: request,
  environment: getEnvironment,
  // Each time they are asked for, the host makes handles of them, of which there are not many.
  directories: () => (granted ??= getDirectories()),
  place: (file, line) => script?.place(file, line),
});
globalThis.fetch = fetch;
redirect((level, message) => log(level, message));

/**
 * Returns the exports of the contract for a script that is loaded at the first of its calls.
 *
 * @param open returns the script
 * @param documentation returns what its source says about its functions, by name
 * @param keep is called with the script when it has been registered
 */
export function contract(open, documentation, keep = () => {}) {
  let problem;

  function load() {
    if (script === undefined) {
      try {
        script = open();
        host.documentation = (name) => (script.documentation ??= documentation(script))[name];
        script.load();
      } catch (error) {
        // A component's trap would say nothing.
        problem = error instanceof ScriptError ? error.message : `the script cannot be loaded: ${error?.message ?? error}`;
      }
    }
    if (problem !== undefined) throw problem;
  }

  return {
    async register() {
      load();
      try {
        const registered = plugin.registration(script.main.replace(/^.*\//, '').replace(/\.\w+$/, ''));
        keep(script);
        return registered;
      } catch (error) {
        throw error instanceof DefinitionError ? error.message : script.explained(error).message;
      }
    },
    async call(tool, args, context) {
      try {
        load();
      } catch (text) {
        throw { tag: 'failed', val: text };
      }
      return plugin.call(tool, args, context);
    },
    availability: {
      async check(tool) {
        load();
        const reason = await plugin.check(tool);
        if (reason !== undefined) throw reason;
      },
    },
    schemaOverride: {
      async describe(tool, available) {
        try {
          load();
          return await plugin.describe(tool, available);
        } catch (error) {
          log('error', `describe of \`${tool}\`: ${typeof error === 'string' ? error : script.explained(error).message}`);
          return undefined;
        }
      },
    },
    hooks: {
      request: (hooked) => hook('request', hooked),
      preCall: (hooked) => hook('preCall', hooked),
      postCall: (hooked, outcome) => hook('postCall', hooked, outcome),
      transform: (hooked, outcome) => hook('transform', hooked, outcome),
    },
  };

  async function hook(event, hooked, outcome) {
    load();
    return plugin.hook(event, hooked, outcome);
  }
}

export { Script };
