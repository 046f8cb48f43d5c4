/**
 * What would become of a request, or of a connection, on each split of its route: where it would be sent
 * and as what, or what is answered in place of that.
 *
 * @module
 */

import type { EndpointState } from "../../balance/mod.ts";
import type { RequestHead } from "../../http/mod.ts";
import type { ExplainContext } from "./find_listener.ts";
import { trustOf } from "../upstream/endpoint_dial.ts";
import type { LocalReply, SplitView, TargetView } from "./explanation.ts";
import { closed, ownAnswer, sentView } from "./explanation_views.ts";
import { protocolsTo, type RequestPool } from "../upstream/request_pools.ts";
import type { OutboundListener } from "../listen/outbound_listener.ts";
import { type ProbeFailure, reachEndpoints } from "../upstream/probe_endpoint.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import type { TargetGroup } from "../upstream/target_group.ts";

/** A request on one split, after plugins. */
export interface SplitRequest {
  readonly request: RequestHead;
  /** `undefined`: `answer` is given. */
  readonly sent: RequestHead | undefined;
  readonly answer: LocalReply | undefined;
  /** `undefined`: it leads nowhere. */
  readonly to: RequestPool | undefined;
  readonly asks: SplitView["plugins"] | undefined;
}

export class SplitExplainer {
  readonly #outbound: OutboundListener;
  readonly #around: ExplainContext;
  readonly #connects: boolean;

  constructor(outbound: OutboundListener, around: ExplainContext, connects: boolean) {
    this.#outbound = outbound;
    this.#around = around;
    this.#connects = connects;
  }

  /** `of`: the request on the split that leads to that resolver; absent: bytes are carried. */
  async splits(route: string, of?: (resolver: string) => SplitRequest): Promise<SplitView[]> {
    const outbound = this.#outbound;
    const splits = outbound.upstream.routes.splitsOf(route);
    const whole = splits.reduce((sum, { weight }) => sum + weight, 0);
    return await Promise.all(splits.map(async ({ weight, resolver, group }) => {
      const on = of?.(resolver);
      const failed = ({ code, reason }: RefusalReason) =>
        on ? ownAnswer(on.request, code, reason) : closed(code, reason);
      const why = on?.answer ? undefined : this.#whyNot(group, on);
      const known = on?.answer ?? (why && failed(why));
      const reached = this.#connects && !known
        ? await reachEndpoints(group, outbound.context, protocolsTo(group))
        : NOT_TRIED;
      const unreached = whyUnreached(group, reached);
      const answer = known ?? (unreached ? failed(unreached) : null);
      const head = on?.sent;
      return {
        ...{ chance: weight / whole, answer, balancing: group.balancing },
        sent: head ? sentView(head) : null,
        ...(head && { head }),
        lack: group.isEmpty ? group.lack : "",
        plugins: on?.asks ?? {},
        hashedBy: group.needsHash ? this.#hashedBy(route) : [],
        targets: this.#targets(group, reached),
      };
    }));
  }

  /** In the order of `l7/request_ways.ts` and `attempt.ts`. */
  #whyNot(group: TargetGroup, on: SplitRequest | undefined): RefusalReason | undefined {
    const { context, upstream: { pending } } = this.#outbound;
    if (on) {
      if (!on.to) return { code: "route_not_found", reason: "its route leads nowhere" };
      if (!on.to.enter("")) return { code: "limit_reached", reason: on.to.whyFull() };
      on.to.leave("");
    }
    if (pending.limit === 0) {
      return { code: "limit_reached", reason: "limits.max_pending_requests is 0" };
    }
    const trust = trustOf(group, context);
    const fault = trust ? trust.fault(context.clock.now()) : "no certificate yet";
    if (fault !== undefined) return { code: "not_ready", reason: fault };
    // Those that are ejected, or that fail their checks, are tried when nothing else is left.
    if (statesOf(group).length > 0) return undefined;
    return { code: "no_endpoint", reason: `no healthy instance: ${group.lack}` };
  }

  #targets(group: TargetGroup, reached: ReadonlyMap<EndpointState, ProbeFailure>): TargetView[] {
    const nowMs = this.#outbound.context.clock.monotonic();
    return [...group.targets].map(
      ({ part: { key, connectTimeoutMs, lack, spiffeUris }, pool }) => {
        const states = [...pool.states];
        return {
          ...{ target: key, connectTimeoutMs, lack, spiffeUris },
          endpoints: pool.views(nowMs).map((view, at) => {
            const state = states[at];
            const unreachable = state && reached.has(state)
              ? reached.get(state)?.reason ?? ""
              : null;
            return { ...view, unreachable };
          }),
        };
      },
    );
  }

  #hashedBy(route: string): readonly string[] {
    const chain = this.#around.snapshot.chains[this.#outbound.upstream.part.chain];
    const policies = chain?.routes.find(({ name }) => name === route)?.hash ?? [];
    return policies.map((policy) =>
      policy.kind === "source" ? "source address" : `${policy.kind} ${policy.name}`
    );
  }
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
