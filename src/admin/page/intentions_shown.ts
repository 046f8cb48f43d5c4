/** Intentions in force, with the requests that each decides about. @module */

import { covers, type Intention } from "../../policy/mod.ts";
import type { TrafficView } from "../../proxy/mod.ts";
import type { AdminView } from "../view.ts";

export interface IntentionShown {
  readonly source: string;
  readonly action: string;
  readonly rule: string;
  readonly precedence: number;
  /** Requests of callers that it decides about, since the start. */
  readonly requests: number;
  /** Among the refusals that are kept. */
  readonly refused: number;
}

/** In their order: the first match decides. */
export function intentionsShown(view: AdminView, traffic: TrafficView): readonly IntentionShown[] {
  const intentions = view.snapshot()?.policy.intentions ?? [];
  const requests = new Map<Intention, number>();
  for (const { direction, caller, requests: count } of traffic.rows) {
    const decides = direction === "inbound" && intentions.find((one) => coversCaller(one, caller));
    if (decides) requests.set(decides, (requests.get(decides) ?? 0) + count);
  }
  // Permissions in a mesh without namespaces come with a denial of other namespaces, under the same name.
  const named = intentions.filter(({ rule }, at) => rule !== intentions[at - 1]?.rule);
  return named.map((intention) => {
    const { source, action, permissions = [], rule, precedence } = intention;
    // The rule of a refused request also names its permission.
    const stem = rule.replace(/[^ ]+\)$/, "");
    const refusals = traffic.refusals.filter(({ direction, rule }) =>
      direction === "inbound" && rule.startsWith(stem)
    );
    return {
      source: source.uri ??
        [source.peer && `peer ${source.peer}`, source.name].filter((part) => part).join(" "),
      action: action === "permissions" ? permissionsText(permissions.length) : action,
      rule,
      precedence,
      requests: requests.get(intention) ?? 0,
      refused: refusals.reduce((sum, { count }) => sum + count, 0),
    };
  });
}

/** `caller` as the traffic table names it: `web`, `finance/web`, `ap/finance/web`. */
function coversCaller(intention: Intention, caller: string): boolean {
  const [service = "", namespace = "default", partition = "default"] = caller.split("/").reverse();
  const id = { trustDomain: "", datacenter: "", partition, namespace, service };
  return covers(intention, { id, uri: "" });
}

function permissionsText(count: number): string {
  return count === 1 ? "1 permission" : `${count} permissions`;
}
