/**
 * Probes which endpoints of a group accept a connection now: connects as a request would, and closes without
 * sending anything. Passive health does not count probes.
 *
 * @module
 */

import type { EndpointState } from "../../balance/mod.ts";
import type { Address, ErrorCode } from "../../base/mod.ts";
import type { Dial } from "../../net/mod.ts";
import type { UpstreamContext } from "../core/context.ts";
import { EndpointDial, type EndpointDialHandler, trustOf } from "./endpoint_dial.ts";
import { dialLocal } from "./local_dial.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import type { TargetGroup } from "./target_group.ts";

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

/** Probes the local application. */
export async function reachLocal(
  local: Address,
  { context, timeoutMs }: { readonly context: UpstreamContext; readonly timeoutMs: number },
): Promise<ProbeFailure> {
  return await connected(
    context,
    (handler) => dialLocal(local, handler, { context, timeoutMs }),
    "local_timed_out",
  );
}

interface Closed {
  readonly stream: { close(): void };
}

function connected(
  { deadlines }: UpstreamContext,
  dial: (handler: EndpointDialHandler<Closed>) => Dial,
  late: ErrorCode = "endpoint_timed_out",
): Promise<ProbeFailure> {
  return new Promise((resolve) => {
    const over = (reached: ProbeFailure) => {
      deadline.cancel();
      resolve(reached);
    };
    const deadline = deadlines.after(LIMIT_MS, () => {
      dialled.cancel();
      over({ code: late, reason: `no connection after ${LIMIT_MS} ms` });
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
