/**
 * `-register`: keeps a proxy that nobody registered in the agent's catalog for as long as it runs. The
 * TTL check takes it out of use should we end without a word.
 *
 * @module
 */

import { Backoff, type Clock, type Log, messageOf, ProxyError, type Random } from "../base/mod.ts";
import type { RegisterSignals } from "./agent.ts";
import type { Client } from "./http/client.ts";
import { wakeableSleep } from "./watch/wakeable_sleep.ts";

const TTL = "30s";
const HEARTBEAT_MS = 10_000;
const TIMEOUT_MS = 5_000;
const DEREGISTER_TRIES = 3;
const DEREGISTER_PAUSE_MS = 500;

/** One entry of the agent: the proxy alone. */
export interface ProxyEntry {
  readonly id: string;
  readonly name: string;
  readonly destination: string;
  readonly host: string;
  readonly port: number;
}

interface Deps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/**
 * Runs until `signal` aborts, then deregisters. The check passes while callers are served, and the agent
 * is told of each change at once. Rejects only when the token may not register; an agent that is away or
 * restarts is waited for.
 */
export async function keepRegistered(
  client: Client,
  request: ProxyEntry,
  options: RegisterSignals & { readonly deps: Deps },
): Promise<void> {
  const { signal, serving, draining, onLeft, deps } = options;
  const { clock, random, log } = deps;
  const backoff = new Backoff({ baseMs: 1_000, maxMs: 10_000, random });
  const statusNow = () =>
    draining?.aborted || serving?.aborted === false ? "critical" as const : "passing" as const;
  let registered = false;
  let ever = false;
  // Cut off before the answer came: the agent may have taken it all the same.
  let perhaps = false;
  while (!signal.aborted) {
    let pauseMs = HEARTBEAT_MS;
    const status = statusNow();
    try {
      if (!registered) {
        await register(client, request, { status, signal });
        registered = ever = true;
        log.info("proxy registered", { id: request.id });
      } else {
        await tellStatus(client, request.id, { status, signal });
      }
      if (status === "critical" && draining?.aborted) onLeft?.();
      backoff.reset();
    } catch (error) {
      perhaps = signal.aborted;
      if (perhaps) break;
      const code = error instanceof ProxyError ? error.code : "internal";
      if (!ever && code === "agent_forbidden") throw error;
      // The agent forgot us, or may have: say it all again.
      registered = false;
      pauseMs = backoff.next();
      log.warn("proxy registration cannot be kept up", {
        id: request.id,
        error: messageOf(error),
        retry_ms: Math.round(pauseMs),
      });
    }
    if (registered && status !== statusNow()) continue;
    await wakeableSleep(clock, pauseMs, { signal, onWake: onAnyOf([serving, draining]) });
  }
  if (ever || perhaps) await deregister(client, request.id, deps);
}

/** Wakes when one of `signals` aborts that has not yet. */
function onAnyOf(signals: readonly (AbortSignal | undefined)[]) {
  const coming = signals.filter((signal) => signal?.aborted === false);
  return (wake: () => void) => {
    for (const signal of coming) signal?.addEventListener("abort", wake);
    return () => {
      for (const signal of coming) signal?.removeEventListener("abort", wake);
    };
  };
}

type Status = "passing" | "critical";

async function register(
  client: Client,
  request: ProxyEntry,
  { status, signal }: { readonly status: Status; readonly signal: AbortSignal },
): Promise<void> {
  const { id, name, destination, host, port } = request;
  await client.call({
    resource: "register",
    what: `register the proxy ${JSON.stringify(id)}`,
    method: "PUT",
    path: "/v1/agent/service/register",
    body: {
      Kind: "connect-proxy",
      ID: id,
      Name: name,
      // Consul refuses wildcard addresses; without one it takes the agent's own.
      Address: host === "0.0.0.0" || host === "::" ? "" : host,
      Port: port,
      Proxy: { DestinationServiceName: destination },
      Check: { CheckID: checkId(id), Name: "proxy heartbeat", TTL, Status: status },
    },
    timeoutMs: TIMEOUT_MS,
    signal,
  });
}

/** Also what shows that it lives: without it the check turns critical by itself. */
async function tellStatus(
  client: Client,
  id: string,
  { status, signal }: { readonly status: Status; readonly signal: AbortSignal },
): Promise<void> {
  await client.call({
    resource: "register",
    what: `tell that the proxy ${JSON.stringify(id)} is ${status}`,
    method: "PUT",
    path: `/v1/agent/check/${status === "passing" ? "pass" : "fail"}/` +
      encodeURIComponent(checkId(id)),
    timeoutMs: TIMEOUT_MS,
    signal,
  });
}

async function deregister(client: Client, id: string, deps: Deps): Promise<void> {
  const { clock, log } = deps;
  const signal = new AbortController().signal;
  for (let tried = 1;; tried++) {
    try {
      await client.call({
        resource: "register",
        what: `deregister the proxy ${JSON.stringify(id)}`,
        method: "PUT",
        path: `/v1/agent/service/deregister/${encodeURIComponent(id)}`,
        timeoutMs: TIMEOUT_MS,
      });
      log.info("proxy deregistered", { id });
      return;
    } catch (error) {
      const gone = error instanceof ProxyError && error.code === "agent_not_found";
      if (gone) return;
      if (tried >= DEREGISTER_TRIES) {
        log.warn("proxy stays registered; its TTL check takes it out of use", {
          id,
          error: messageOf(error),
        });
        return;
      }
      await wakeableSleep(clock, DEREGISTER_PAUSE_MS, { signal });
    }
  }
}

function checkId(id: string): string {
  return `${id}-ttl`;
}
