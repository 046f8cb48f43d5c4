/** Probes of endpoints, which send nothing: for an operator, and for silent endpoints. @module */

import type { EndpointState } from "../../balance/mod.ts";
import type { Address, ErrorCode } from "../../base/mod.ts";
import type { Dial } from "../../net/mod.ts";
import type { UpstreamContext } from "../core/context.ts";
import { dialLocal, EndpointDial, type EndpointDialHandler, trustOf } from "./endpoint_dial.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import type { Lease, TargetGroup } from "./target_group.ts";
import { addressOf, countSilence } from "./endpoint_failure.ts";

/** Endpoints that one probe connects to. */
const MOST = 16;
/** An operator waits for the result. */
const LIMIT_MS = 2_000;

/** Why the connection failed; `undefined`: it succeeded. */
export type ProbeFailure = RefusalReason | undefined;

/** Endpoints that are not in the result were not tried. */
export async function reachEndpoints(
  group: TargetGroup,
  context: UpstreamContext,
  protocols: readonly string[],
): Promise<ReadonlyMap<EndpointState, ProbeFailure>> {
  const trust = trustOf(group, context);
  const all = [...group.targets].flatMap((target) =>
    [...target.pool.states].map((state) => ({ target, state }))
  );
  // Endpoints that a request would be sent to come first.
  const rank = ({ ejected, lastResort }: EndpointState) => Number(ejected) + 2 * Number(lastResort);
  const tried = all.sort((a, b) => rank(a.state) - rank(b.state)).slice(0, MOST);
  const found = tried.map(async ({ target, state }) => {
    const reached = await connected(context, (handler) =>
      // For plain TCP the other proxy would connect to its application.
      group.upstream.part.http && trust
        ? new EndpointDial(group, { target, state }, handler, { context, trust, protocols })
        : plainDial({ kind: "tcp", ...state.endpoint }, handler, context));
    return [state, reached] as const;
  });
  return new Map(await Promise.all(found));
}

export async function reachLocal(
  local: Address,
  { context, timeoutMs }: { readonly context: UpstreamContext; readonly timeoutMs: number },
): Promise<ProbeFailure> {
  const dial = (handler: EndpointDialHandler<Closed>) =>
    dialLocal(local, handler, { context, timeoutMs });
  return await connected(context, dial, { late: "local_timed_out" });
}

interface Closed {
  readonly stream: { close(): void };
}

function connected(
  { deadlines }: UpstreamContext,
  dial: (handler: EndpointDialHandler<Closed>) => Dial,
  { limitMs = LIMIT_MS, late = "endpoint_timed_out" }: {
    readonly limitMs?: number;
    readonly late?: ErrorCode;
  } = {},
): Promise<ProbeFailure> {
  return new Promise((resolve) => {
    const over = (failure: ProbeFailure) => {
      deadline.cancel();
      resolve(failure);
    };
    const deadline = deadlines.after(limitMs, () => {
      dialled.cancel();
      over({ code: late, reason: `no connection after ${limitMs} ms` });
    });
    const dialled = dial({
      record: { stage: "target", endpoint: "", secured() {} },
      onDialled({ stream }) {
        stream.close();
        over(undefined);
      },
      onFailed: (code, reason) => over({ code, reason }),
    });
  });
}

function plainDial(
  address: Address,
  handler: EndpointDialHandler<Closed>,
  { engine }: UpstreamContext,
): Dial {
  return engine.dial({ address }, {
    onConnected: (stream) => handler.onDialled({ stream }),
    onFailed: (_stage, reason) => handler.onFailed("endpoint_refused", reason),
  });
}

/** How long the handshake of an endpoint may take that does not answer requests. */
const ANSWER_MS = 3_000;
/** Minimum interval of its probes while it answers them. */
const AGAIN_MS = 30_000;

/**
 * The function that probes an endpoint which does not answer, unless it did so lately. A hanging process keeps
 * its connections, since the kernel goes on acknowledging. So the endpoint gets a separate handshake, which
 * carries nothing. A slow application passes it at once, because its sidecar answers. The lease only identifies
 * the endpoint; a probe is not counted as use of it.
 */
export function silenceProbe(
  group: TargetGroup,
  lease: Lease,
  { context, protocols, onHung }: {
    readonly context: UpstreamContext;
    readonly protocols: readonly string[];
    /** The endpoint hangs and was ejected, and there are others. */
    readonly onHung: (reason: string) => void;
  },
): () => void {
  const { clock, log } = context;
  let nextMs = -Infinity;
  return async () => {
    const nowMs = clock.monotonic();
    const trust = trustOf(group, context);
    // Requests avoid an ejected endpoint already.
    if (nowMs < nextMs || !trust || lease.state.ejected) return;
    nextMs = nowMs + AGAIN_MS;
    log.debug("endpoint is silent", { endpoint: addressOf(lease) });
    const failure = await connected(
      context,
      (handler) => new EndpointDial(group, lease, handler, { context, trust, protocols }),
      { limitMs: ANSWER_MS },
    );
    // Any answer shows that the endpoint lives; the next dial detects a closed port.
    if (failure?.code !== "endpoint_timed_out") return;
    const reason = `it hangs: requests and a handshake were not answered for ${ANSWER_MS} ms`;
    const isEjected = countSilence(lease, reason, context);
    // The only endpoint may continue later, and then answers its requests.
    if (isEjected && lease.target.pool.usableCount(clock.monotonic()) > 0) onHung(reason);
  };
}
