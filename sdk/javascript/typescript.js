// Lets Node.js before 22.18, which knows no TypeScript, run tests of a plugin in TypeScript:
// node --import toolhost-sdk/typescript --test

import { register } from 'node:module';

register('./typescript-loader.js', import.meta.url);
