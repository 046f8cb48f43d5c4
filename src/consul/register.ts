/**
 * `-register` beside an agent: keeps a proxy that is not registered otherwise in the agent's catalog while
 * it runs. Its TTL check takes it out of use when the process dies.
 *
 * @module
 */

import { Backoff, messageOf, ProxyError, sleep } from "../base/mod.ts";
import type { ConsulCall } from "./http/carrier.ts";
import type { Client } from "./http/client.ts";
import type { CommonDeps, RegisterSignals } from "./model/consul.ts";
import { onAbort, wakeableSleep } from "./watch/pauses.ts";

const TTL = "30s";
const HEARTBEAT_MS = 10_000;
const TIMEOUT_MS = 5_000;
const DEREGISTER_TRIES = 3;
const DEREGISTER_PAUSE_MS = 500;

/** The agent's entry for the proxy alone. */
interface ProxyEntry {
  readonly id: string;
  readonly name: string;
  readonly destination: string;
  readonly host: string;
  readonly port: number;
}

type Deps = Omit<CommonDeps, "stats">;

type Status = "passing" | "critical";

/**
 * Runs until `signal` aborts, then deregisters. The check passes while callers are served, and each change
 * is reported at once. Rejects only when the token may not register; an agent that is away or restarts is
 * waited for.
 */
export async function keepRegistered(
  client: Client,
  entry: ProxyEntry,
  options: RegisterSignals & { readonly deps: Deps },
): Promise<void> {
  const { serving, draining, handedOver, onLeft, deps } = options;
  const signal = handedOver ? AbortSignal.any([options.signal, handedOver]) : options.signal;
  const { clock, random, log } = deps;
  const { id } = entry;
  const backoff = new Backoff({ baseMs: 1_000, maxMs: 10_000, random });
  const statusNow = (): Status =>
    draining?.aborted || serving?.aborted === false ? "critical" : "passing";
  let registered = false;
  let wasRegistered = false;
  // The call was cut off, and the agent may have carried it out all the same.
  let isUncertain = false;
  while (!signal.aborted) {
    let pauseMs = HEARTBEAT_MS;
    const status = statusNow();
    try {
      if (!registered) {
        await put(client, registrationOf(entry, status), signal);
        registered = wasRegistered = true;
        log.info("proxy registered", { id });
      } else await put(client, heartbeatOf(id, status), signal);
      if (status === "critical" && draining?.aborted) onLeft?.();
      backoff.reset();
    } catch (error) {
      isUncertain = signal.aborted;
      if (isUncertain) break;
      const code = error instanceof ProxyError ? error.code : "internal";
      if (!wasRegistered && code === "agent_forbidden") throw error;
      // The agent may have forgotten the entry: register it again.
      registered = false;
      pauseMs = backoff.next();
      const fields = { id, error: messageOf(error), retry_ms: Math.round(pauseMs) };
      log.warn("proxy registration cannot be kept up", fields);
    }
    if (registered && status !== statusNow()) continue;
    await wakeableSleep(clock, pauseMs, { signal, onWake: onAbort([serving, draining]) });
  }
  if (handedOver?.aborted) return;
  if (wasRegistered || isUncertain) await deregister(client, id, deps);
}

type Write = Pick<ConsulCall, "what" | "path" | "body">;

function registrationOf({ id, name, destination, host, port }: ProxyEntry, status: Status): Write {
  return {
    what: `register the proxy ${JSON.stringify(id)}`,
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
  };
}

/** The status is the heartbeat, too: without it the check turns critical by itself. */
function heartbeatOf(id: string, status: Status): Write {
  const action = status === "passing" ? "pass" : "fail";
  return {
    what: `tell that the proxy ${JSON.stringify(id)} is ${status}`,
    path: `/v1/agent/check/${action}/${encodeURIComponent(checkId(id))}`,
  };
}

async function deregister(client: Client, id: string, { clock, log }: Deps): Promise<void> {
  const write = {
    what: `deregister the proxy ${JSON.stringify(id)}`,
    path: `/v1/agent/service/deregister/${encodeURIComponent(id)}`,
  };
  for (let tried = 1;; tried++) {
    try {
      await put(client, write);
      return log.info("proxy deregistered", { id });
    } catch (error) {
      if (error instanceof ProxyError && error.code === "agent_not_found") return;
      if (tried >= DEREGISTER_TRIES) {
        const fields = { id, error: messageOf(error) };
        return log.warn("proxy stays registered; its TTL check takes it out of use", fields);
      }
      await sleep(clock, DEREGISTER_PAUSE_MS);
    }
  }
}

async function put(client: Client, write: Write, signal?: AbortSignal): Promise<void> {
  const call = { resource: "register", method: "PUT", timeoutMs: TIMEOUT_MS, ...write } as const;
  await client.call({ ...call, ...(signal && { signal }) });
}

function checkId(id: string): string {
  return `${id}-ttl`;
}
