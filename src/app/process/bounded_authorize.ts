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

/** Beyond the most calls at once, a call fails at once, which denies the connection. */
export function boundedAuthorize(agent: Consul | undefined): RemoteAuthorize {
  let running = 0;
  return async (request) => {
    if (!agent) throw new ProxyError("authorize_failed", "there is no agent");
    if (running >= MAX_AUTHORIZE_CALLS) {
      throw new ProxyError(
        "authorize_failed",
        `${running} connections wait for the agent's verdict`,
      );
    }
    running++;
    try {
      return await agent.authorize(request, { timeoutMs: AUTHORIZE_TIMEOUT_MS });
    } finally {
      running--;
    }
  };
}
