/** Denials after a change of intentions that are due to it, and not to rules that denied before. Pure. @module */

import type { Intention } from "../policy/mod.ts";
import type { DataView, RefusalView } from "../proxy/mod.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import { begins, pairOf } from "./snapshot_events.ts";

/** A denial that was seen so shortly before the change goes on after it for the same reason. */
const GOES_ON_MS = 60_000;

type Policies = Readonly<Record<"before" | "after", Pick<Snapshot, "policy" | "service">>>;

/**
 * Whether a denial is an effect of the event. `rule`: that of the denial; `wentOn`: the same was denied
 * before.
 */
export type IsDue = (rule: string, wentOn: boolean) => boolean;

/** `subject`: `web => db`; of the event about an intention, the default or many of them. */
export function dueTo(subject: string, { before, after }: Policies): IsDue {
  const of = ({ policy: { intentions }, service }: Policies["before"]) =>
    intentions.find((intention) => pairOf(intention, service) === subject);
  const [was, now] = [of(before), of(after)];
  if (now) {
    // Permissions that stay the same deny other requests, where one before them is gone.
    const isKept = was?.action === "permissions" && now.action === "permissions";
    return (rule, wentOn) => begins(rule, now) && !(isKept && wentOn);
  }
  const { defaultAction, intentions } = after.policy;
  if (was) return (rule) => isBelow(was, rule, intentions);
  return before.policy.defaultAction === defaultAction
    ? (_rule, wentOn) => !wentOn
    : (rule) => rule.startsWith("default ");
}

/** The rules that a removed one came before: none of them decided about its callers. */
function isBelow(removed: Intention, rule: string, intentions: readonly Intention[]): boolean {
  const deciding = intentions.find((intention) => begins(rule, intention));
  return !deciding || deciding.precedence < removed.precedence;
}

type Traffic = { readonly traffic: Pick<DataView["traffic"], "refusals"> };

interface Denied {
  count: number;
  /** Wall clock of the last one. */
  at: number;
  readonly rule: string;
}

/** Denials by caller, rule and path, of all data paths together. */
function deniedOf(views: readonly Traffic[]): ReadonlyMap<string, Denied> {
  const sums = new Map<string, Denied>();
  for (const refusal of views.flatMap(({ traffic }) => traffic.refusals)) {
    const { direction, code, count, at, rule } = refusal;
    if (direction !== "inbound" || code !== "intention_denied") continue;
    const key = keyOf(refusal);
    const sum = sums.get(key) ?? { count: 0, at, rule };
    sums.set(key, sum);
    sum.count += count;
    sum.at = Math.max(sum.at, at);
  }
  return sums;
}

function keyOf({ listener, caller, rule, path, status }: RefusalView): string {
  // The number of a permission changes with those before it.
  const text = rule.replace(/permission \d+: /, "");
  return [listener, caller, text, path, status].join("\u0000");
}

/**
 * The number of denials after the change that are due to it. `taken`: denials that another event of the same
 * change has counted, to which these are added.
 */
export function deniedSince(
  [before, after]: readonly [before: readonly Traffic[], after: readonly Traffic[]],
  { isDue, changedAtMs, taken }: {
    readonly isDue: IsDue;
    readonly changedAtMs: number;
    readonly taken: Set<string>;
  },
): number {
  const old = deniedOf(before);
  let count = 0;
  for (const [key, denied] of deniedOf(after)) {
    const was = old.get(key);
    const wentOn = was !== undefined && was.at >= changedAtMs - GOES_ON_MS;
    if (taken.has(key) || !isDue(denied.rule, wentOn)) continue;
    taken.add(key);
    // The list has room for some; one that came back counts from 1.
    count += was && was.count <= denied.count ? denied.count - was.count : denied.count;
  }
  return count;
}
