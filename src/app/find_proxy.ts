/**
 * Which registered proxy to be, asked of the agent until it answers: a supervisor may start us before
 * it. What it refuses ends the start; what is only away does not.
 *
 * @module
 */

import {
  Backoff,
  type Clock,
  type Log,
  messageOf,
  ProxyError,
  type Random,
  sleep,
} from "../base/mod.ts";
import type { Agent } from "../consul/mod.ts";

export interface ProxyName {
  readonly by: "sidecar_for" | "proxy_id" | "gateway";
  readonly id: string;
}

export interface FindProxyDeps {
  readonly agent: Pick<Agent, "findGateway" | "findProxy" | "findSidecar">;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** There may be a stored state, with which the proxy serves without the agent. */
  readonly hasState: boolean;
  /** The agent is away, and nothing can be done before it comes; called for each failure. */
  onWaiting(reason: string): Promise<void>;
}

/** An id that is known need not wait longer for an agent that hangs. */
const KNOWN_WAIT_MS = 1_000;

const FIND = {
  sidecar_for: (agent, id) => agent.findSidecar(id),
  proxy_id: (agent, id) => agent.findProxy(id),
  gateway: (agent, id) => agent.findGateway(id),
} as const satisfies Record<
  ProxyName["by"],
  (agent: FindProxyDeps["agent"], id: string) => Promise<string>
>;

/** What the agent would most likely have said: Consul's own defaults. */
const USUAL_ID = {
  sidecar_for: (id) => `${id}-sidecar-proxy`,
  proxy_id: (id) => id,
  gateway: (id) => id || "ingress-gateway",
} as const satisfies Record<ProxyName["by"], (id: string) => string>;

/** The proxy's id; fails with what the agent refuses. */
export async function findProxy({ by, id }: ProxyName, deps: FindProxyDeps): Promise<string> {
  const { agent, clock, random, log, signal, hasState, onWaiting } = deps;
  const backoff = new Backoff({ baseMs: 500, maxMs: 15_000, random });
  let told = "";
  for (;;) {
    try {
      const found = FIND[by](agent, id);
      if (!hasState || by !== "proxy_id") return await found;
      const waited = new AbortController();
      const { signal } = waited;
      const known = sleep(clock, KNOWN_WAIT_MS, { signal }).then(() => id);
      return await Promise.race([found, known]).finally(() => waited.abort());
    } catch (error) {
      const code = error instanceof ProxyError ? error.code : "internal";
      const away = code === "agent_unreachable" || code === "agent_failed" ||
        code === "agent_overloaded";
      if (!away || signal.aborted) throw error;
      if (hasState) return USUAL_ID[by](id);
      const delayMs = backoff.next();
      const reason = messageOf(error);
      const what = code === "agent_unreachable"
        ? "agent not reached; trying again"
        : "agent answered with an error; trying again";
      // The same reason again is no news.
      log[reason === told ? "debug" : "warn"](what, {
        error: reason,
        delay_ms: Math.round(delayMs),
      });
      told = reason;
      await onWaiting(reason);
      await sleep(clock, delayMs, { signal });
      if (signal.aborted) throw error;
    }
  }
}
