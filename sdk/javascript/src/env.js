// Variables of the host's environment, as far as they were granted.

import { host } from './host.js';

/** Returns the value of a variable, or undefined if it is not set or not granted. */
export function env(name) {
  const entry = host.environment().find(([key]) => key === name);
  return entry?.[1];
}
