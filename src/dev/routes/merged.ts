/**
 * `merge-central-config`: proxies as a server shows them to those who have no agent that merges for them.
 *
 * @module
 */

import type { ServiceRecord } from "../catalog/records.ts";
import { mergedNames, mergeProxy } from "../entries/central_config.ts";
import { configTopic } from "../entries/config_entries.ts";
import type { Call } from "../http/call.ts";
import type { JsonObject } from "../http/decode.ts";

/** The proxy block to show: merged where that is asked for, whatever value it is given. */
export function shownProxy(call: Call, { proxy, merged }: ServiceRecord): JsonObject | undefined {
  const own = merged ?? proxy;
  if (!own || !asksForMerge(call)) return own;
  return mergeProxy(own, (kind, name) => call.state.config.find(kind, name), false);
}

/** What a change of concerns the merge of these. */
export function mergeTopics(call: Call, services: readonly ServiceRecord[]): readonly string[] {
  return asksForMerge(call) ? [...new Set(services.flatMap(proxyTopics))] : [];
}

/** The last change that concerned the merge of these. */
export function mergeIndex(call: Call, services: readonly ServiceRecord[]): number {
  const indexes = mergeTopics(call, services).map((topic) => call.state.store.topicIndex(topic));
  return Math.max(1, ...indexes.map((index) => index ?? 1));
}

/** What the merge of one proxy depends on. */
export function proxyTopics({ proxy }: ServiceRecord): readonly string[] {
  if (!proxy) return [];
  return [
    configTopic("proxy-defaults", "global"),
    ...mergedNames(proxy).map((name) => configTopic("service-defaults", name)),
  ];
}

function asksForMerge(call: Call): boolean {
  return call.query.has("merge-central-config");
}
