/**
 * The options in force, as the admin server may show them.
 *
 * @module
 */

import type { ProxyOptions } from "./args_proxy.ts";

/** Everything but the token; of that only whether one was given. */
export function shownOptions(options: ProxyOptions): Readonly<Record<string, unknown>> {
  const { agentFlags, warnings: _, ...rest } = options;
  const { token, ...shownFlags } = agentFlags;
  return { ...rest, agentFlags: { ...shownFlags, tokenGiven: token !== undefined } };
}
