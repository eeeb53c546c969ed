// A component that was built of a script: its modules were compiled before, and stand as functions
// in the lines before this file (see build.mjs).

/* global __toolhost_modules */
import * as sdk from '../index.js';
import { Script, contract } from './contract.js';
import { documentation } from './documentation.js';
import { warm } from './warm.js';
// Made by build.mjs: what the script imports by name.
import { packages } from 'toolhost-packages';

class Baked extends Script {
  /** A frame of the one file that everything stands in, as the author's file and line. */
  place(file, line) {
    if (!file.endsWith('toolhost-baked.js')) return undefined;
    const module = __toolhost_modules.find(({ first, last }) => line >= first && line <= last);
    return module && `${module.path}:${line - module.first + 1}`;
  }
}

const preloaded = { 'toolhost-sdk': sdk, ...packages };
warm({ 'toolhost-sdk': sdk });

const open = () => new Baked(__toolhost_modules, preloaded);

export const { register, call, availability, schemaOverride, hooks } = contract(open, documentation);
