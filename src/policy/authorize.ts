/**
 * L4 authorization: may this source connect to the local service? Pure and synchronous, so live
 * connections can be judged again whenever rules change.
 *
 * @module
 */

import { covers, type Intention, type Source } from "./intention.ts";

/** The rules for all sources. Plain data, replaced whole. */
export interface IntentionPolicy {
  /** In Consul's order: the first intention that covers the source decides. */
  readonly intentions: readonly Intention[];
  /** For sources that no intention covers; unknown is deny. */
  readonly defaultAction: "allow" | "deny";
}

/** The outcome and the rule it rests on, for the log line. */
export type IntentionVerdict =
  | { readonly kind: "allow"; readonly rule: string }
  | { readonly kind: "deny"; readonly rule: string };

/** The first covering intention decides; permissions cannot be judged at L4 and deny. */
export function authorize(source: Source, policy: IntentionPolicy): IntentionVerdict {
  const intention = policy.intentions.find((candidate) => covers(candidate, source));
  if (!intention) return { kind: policy.defaultAction, rule: `default ${policy.defaultAction}` };
  return { kind: intention.action === "allow" ? "allow" : "deny", rule: intention.rule };
}
