// The runtime's own `fetch`, over what the host lets through, with an error that says who can help.

import { host } from './host.js';

export async function fetch(input, init) {
  if (host.fetch === undefined) {
    throw new TypeError(
      'there is no host to send requests; a test answers them with respondWith of toolhost-sdk/testing',
    );
  }
  try {
    return await host.fetch(input, init);
  } catch (error) {
    throw explained(error, input);
  }
}

/** StarlingMonkey's error does not tell a refusal from a broken line; the host's outcome does. */
function explained(error, input) {
  if (!(error instanceof TypeError) || !/NetworkError/.test(error.message)) return error;
  let origin;
  try {
    origin = new URL(typeof input === 'string' ? input : (input.url ?? String(input))).origin;
  } catch {
    return error;
  }
  return new TypeError(
    `no answer from ${origin}: the host refused the request, or the network failed. If it is not ` +
      `granted: \`toolhost grant ID --http ${origin}\` with the id of this plugin, which must ask ` +
      `for it with need.http`,
    { cause: error },
  );
}
