// The runner: the component that runs scripts. Their text comes from the host.

import { modules } from 'toolhost:plugin/script@0.1.0';
import * as sdk from '../index.js';
import { Script, contract } from './contract.js';
import { documentation } from './documentation.js';
import { warm } from './warm.js';
import * as zod from './zod.js';

const preloaded = { 'toolhost-sdk': sdk, zod };
warm(preloaded);

export const { register, call, availability, schemaOverride, hooks } = contract(() => new Script(modules(), preloaded), documentation);
