// The runner: the component that runs scripts. Their text comes from the host.

import { keep, kept, modules } from 'toolhost:plugin/script@0.1.0';
import * as sdk from '../index.js';
import { Script, contract } from './contract.js';
import { documentation } from './documentation.js';
import { warm } from './warm.js';
import * as zod from './zod.js';

const preloaded = { 'toolhost-sdk': sdk, zod };
warm(preloaded);

/** The script: from what was kept of it, where that is possible. */
function open() {
  const bytes = kept();
  return bytes === undefined ? new Script(modules(), preloaded) : Script.unpacked(new TextDecoder().decode(bytes), modules, preloaded);
}

export const { register, call, availability, schemaOverride, hooks } = contract(open, documentation, (script) => {
  keep(new TextEncoder().encode(script.packed()));
});
