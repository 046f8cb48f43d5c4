/** Explains each split of a route: its endpoints, or the answer in place of them. @module */

import type { EndpointState } from "../../balance/mod.ts";
import type { RequestHead } from "../../http/mod.ts";
import type { ChainPart, Snapshot } from "../../snapshot/mod.ts";
import { trustOf } from "../upstream/endpoint_dial.ts";
import {
  closed,
  type LocalReply,
  ownAnswer,
  sentView,
  type SplitView,
  type TargetView,
} from "./explanation.ts";
import { protocolsTo, type RequestPool } from "../upstream/request_pools.ts";
import type { UpstreamContext } from "../core/context.ts";
import { whyNoPlace } from "../service/stages.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { type ProbeFailure, reachEndpoints } from "../upstream/probes.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import type { TargetGroup } from "../upstream/target_group.ts";

/** A request on one split, after plugins. */
export interface SplitRequest {
  readonly request: RequestHead;
  /** `undefined`: `answer` is given. */
  readonly sent: RequestHead | undefined;
  readonly answer: LocalReply | undefined;
  /** `undefined`: it leads nowhere. */
  readonly pool: RequestPool | undefined;
  readonly asks: SplitView["plugins"] | undefined;
}

export interface ExplainedRoute {
  readonly upstream: Upstream;
  readonly route: string;
  readonly context: UpstreamContext;
  readonly chains: Snapshot["chains"];
  readonly connects: boolean;
}

/** `of`: the request on the split that leads to that resolver; absent: bytes are carried. */
export async function explainSplits(
  { upstream, route, context, chains, connects }: ExplainedRoute,
  of?: (resolver: string) => SplitRequest,
): Promise<SplitView[]> {
  const splits = upstream.routes.splitsOf(route);
  const whole = splits.reduce((sum, { weight }) => sum + weight, 0);
  return await Promise.all(splits.map(async ({ weight, resolver, group }) => {
    const on = of?.(resolver);
    const failed = ({ code, reason }: RefusalReason) =>
      on ? ownAnswer(on.request, code, reason) : closed(code, reason);
    const why = on?.answer ? undefined : whyNot(group, on, context);
    const known = on?.answer ?? (why && failed(why));
    const reached = connects && !known
      ? await reachEndpoints(group, context, protocolsTo(group))
      : NOT_TRIED;
    const unreached = whyUnreached(group, reached);
    const head = on?.sent;
    return {
      chance: weight / whole,
      answer: known ?? (unreached ? failed(unreached) : null),
      balancing: group.balancing,
      sent: head ? sentView(head) : null,
      ...(head && { head }),
      lack: group.isEmpty ? group.lack : "",
      plugins: on?.asks ?? {},
      hashedBy: group.needsHash ? hashedBy(chains[upstream.part.chain], route) : [],
      targets: targetsOf(group, reached, context.clock.monotonic()),
    };
  }));
}

/** The checks of the stage `pool` and of `upstream/attempt.ts`, in their order. */
function whyNot(
  group: TargetGroup,
  on: SplitRequest | undefined,
  context: UpstreamContext,
): RefusalReason | undefined {
  if (on) {
    const refusal = whyNoPlace(on.pool, "");
    if (refusal) return refusal;
    on.pool?.leave("");
  }
  if (group.upstream.pending.limit === 0) {
    return { code: "limit_reached", reason: "limits.max_pending_requests is 0" };
  }
  const trust = trustOf(group, context);
  const fault = trust ? trust.fault(context.clock.now()) : "no certificate yet";
  if (fault !== undefined) return { code: "not_ready", reason: fault };
  // Ejected endpoints, and those that fail their checks, are tried when no other is left.
  if (statesOf(group).length > 0) return undefined;
  return { code: "no_endpoint", reason: `no healthy instance: ${group.lack}` };
}

function targetsOf(
  group: TargetGroup,
  reached: ReadonlyMap<EndpointState, ProbeFailure>,
  nowMs: number,
): TargetView[] {
  return [...group.targets].map(({ part, pool }) => {
    const { key: target, connectTimeoutMs, lack, spiffeUris } = part;
    const states = [...pool.states];
    const endpoints = pool.views(nowMs).map((view, at) => {
      const state = states[at];
      const unreachable = state && reached.has(state) ? reached.get(state)?.reason ?? "" : null;
      return { ...view, unreachable };
    });
    return { target, connectTimeoutMs, lack, spiffeUris, endpoints };
  });
}

function hashedBy(chain: ChainPart | undefined, route: string): readonly string[] {
  const policies = chain?.routes.find(({ name }) => name === route)?.hash ?? [];
  return policies.map((policy) =>
    policy.kind === "source" ? "source address" : `${policy.kind} ${policy.name}`
  );
}

const NOT_TRIED: ReadonlyMap<EndpointState, ProbeFailure> = new Map();

function statesOf({ targets }: TargetGroup): EndpointState[] {
  return [...targets].flatMap(({ pool }) => [...pool.states]);
}

/** Why every endpoint was tried in vain; `undefined`: one was reached, or some were not tried. */
function whyUnreached(
  group: TargetGroup,
  reached: ReadonlyMap<EndpointState, ProbeFailure>,
): RefusalReason | undefined {
  let last: RefusalReason | undefined;
  for (const state of statesOf(group)) {
    const failure = reached.get(state);
    if (!failure) return undefined;
    last = failure;
  }
  if (!last) return undefined;
  return { code: last.code, reason: `no instance takes a connection: ${last.reason}` };
}
