/**
 * The agent's verdict per connection (`-authorize both`), bounded in time and in number.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { Consul } from "../../consul/mod.ts";
import type { RemoteAuthorize } from "../../proxy/mod.ts";

const AUTHORIZE_TIMEOUT_MS = 2_000;
const MAX_AUTHORIZE_CALLS = 256;

/** More questions at once than the agent would answer in time are refused, which denies. */
export function boundedAuthorize(agent: Consul | undefined): RemoteAuthorize {
  let asking = 0;
  return async (request) => {
    if (!agent) throw new ProxyError("authorize_failed", "there is no agent");
    if (asking >= MAX_AUTHORIZE_CALLS) {
      throw new ProxyError(
        "authorize_failed",
        `${asking} connections wait for the agent's verdict`,
      );
    }
    asking++;
    try {
      return await agent.authorize(request, { timeoutMs: AUTHORIZE_TIMEOUT_MS });
    } finally {
      asking--;
    }
  };
}
