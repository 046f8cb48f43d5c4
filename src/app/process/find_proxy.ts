/** Finds the registered proxy; tries until the agent answers. A refusal ends the start. @module */

import {
  Backoff,
  type Clock,
  type ErrorCode,
  type Log,
  messageOf,
  ProxyError,
  type Random,
  sleep,
} from "../../base/mod.ts";
import type { Consul } from "../../consul/mod.ts";

export interface ProxyName {
  readonly by: "sidecar_for" | "proxy_id" | "gateway";
  readonly id: string;
}

interface FindProxyDeps {
  readonly agent: Pick<
    Consul,
    "called" | "findGateway" | "findProxy" | "findSidecar" | "serversStatus"
  >;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** There may be a stored state, from which the proxy serves without the agent. */
  readonly hasState: boolean;
  /** Called for each failure, and while the agent hangs. `reason`: server, time and cause. */
  onWaiting(reason: () => string): Promise<void>;
}

/** After this time the agent hangs, or is very busy. */
const SLOW_MS = 1_000;

const AWAY: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "agent_unreachable",
  "agent_failed",
  "agent_overloaded",
  "cluster_changed",
]);

const FIND = {
  sidecar_for: "findSidecar",
  proxy_id: "findProxy",
  gateway: "findGateway",
} as const satisfies Record<ProxyName["by"], keyof Consul>;

/** The id by Consul's defaults, used while the agent is away and there is a stored state. */
export function usualIdOf({ by, id }: ProxyName): string {
  if (by === "gateway") return id || "ingress-gateway";
  return by === "sidecar_for" ? `${id}-sidecar-proxy` : id;
}

/** The proxy's id; rejects with the agent's refusal. */
export async function findProxy({ by, id }: ProxyName, deps: FindProxyDeps): Promise<string> {
  const { agent, clock, random, log, signal, hasState, onWaiting } = deps;
  const backoff = new Backoff({ baseMs: 500, maxMs: 15_000, random });
  const since = new Date(clock.now()).toISOString();
  const server = agent.called === "agent" ? "the agent" : "Consul";
  let logged = "";
  const waitingFor = () => {
    // The result of a search for servers is newer than that of the last request.
    const reason = agent.serversStatus?.()?.lastFailure || logged || "it has not answered yet";
    return `${server}, since ${since}: ${reason}`;
  };
  for (;;) {
    try {
      return await unlessSlow(agent[FIND[by]](id), clock, async () => {
        if (hasState && by === "proxy_id") return id;
        await onWaiting(waitingFor);
        return undefined;
      });
    } catch (error) {
      const code = error instanceof ProxyError ? error.code : "internal";
      if (!AWAY.has(code) || signal.aborted) throw error;
      if (hasState) return usualIdOf({ by, id });
      const delayMs = backoff.next();
      const reason = messageOf(error);
      const fact = code === "agent_unreachable" ? "not reached" : "answered with an error";
      // The same reason again is logged at level debug.
      const level = reason === logged ? "debug" : "warn";
      const fields = { error: reason, delay_ms: Math.round(delayMs) };
      log[level](`${agent.called} ${fact}; trying again`, fields);
      logged = reason;
      await onWaiting(waitingFor);
      await sleep(clock, delayMs, { signal });
      if (signal.aborted) throw error;
    }
  }
}

/** The value of `answer`; where it is late, that of `instead` if it has one. */
async function unlessSlow(
  answer: Promise<string>,
  clock: Clock,
  instead: () => Promise<string | undefined>,
): Promise<string> {
  const over = new AbortController();
  const late = sleep(clock, SLOW_MS, { signal: over.signal }).then(() =>
    over.signal.aborted ? undefined : instead()
  );
  try {
    return await Promise.race([answer, late.then((text) => text ?? answer)]);
  } finally {
    over.abort();
  }
}
