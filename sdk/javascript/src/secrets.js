// Secrets that a tool uses without ever seeing them: the host puts them into requests.

import { host } from './host.js';

export const secrets = {
  /** Says whether the secret is there for this tool: asked for, granted and set. */
  present: (name) => host.secrets.present(name),
  /** A text that stands for the secret in its slot, as in `Bearer ${...}`, or undefined. */
  placeholder: (name) => host.secrets.placeholder(name),
};
