// What build.mjs needs of the loader.

export { functionText } from './compile.js';
export { Script } from './load.js';
