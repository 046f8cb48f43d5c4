/**
 * Statistics for StatsD servers, and `/stats` on an address of its own.
 *
 * @module
 */

import type { Sample } from "../base/mod.ts";
import { createAdmin } from "./admin.ts";
import { envoyFacts, sourceLabels } from "./envoy/envoy_facts.ts";
import { envoyStats } from "./envoy/envoy_stats.ts";
import { configuredTags } from "./envoy/tags.ts";
import { measuredData } from "./measured.ts";
import type { SmallAnswer } from "./server/small_server.ts";
import type { AdminView } from "./view.ts";

export interface SinkStat extends Pick<Sample, "kind" | "value" | "counts"> {
  /** Envoy's full name: `cluster.db.default...upstream_cx_total`. */
  readonly name: string;
  /** The name without the parts that are tags: `cluster.upstream_cx_total`. */
  readonly tagged: string;
  /** Under Envoy's and Consul's names: `envoy.cluster_name`, `consul.destination.service`. */
  readonly tags: Readonly<Record<string, string>>;
}

/** Statistics under Envoy's names. */
export async function sinkStats(view: AdminView): Promise<readonly SinkStat[]> {
  const merged = await measuredData(view);
  const source = sourceLabels(view.snapshot());
  const configured = configuredTags(view.source()?.metrics?.tags ?? []);
  return envoyStats(merged.samples, envoyFacts(view, merged)).map((stat) => {
    const { name, kind, value, counts, prometheus, labels } = stat;
    const { tagged = prometheus.replace("_", ".") } = stat;
    const tags = Object.entries({ ...labels, ...source })
      .map(([tag, text]) => [tagName(tag), text] as const);
    return {
      name,
      kind,
      value,
      tagged,
      ...(counts && { counts }),
      tags: { ...Object.fromEntries(tags), ...configured },
    };
  });
}

function tagName(label: string): string {
  return label.replace(/^envoy_/, "envoy.")
    .replace(/^consul_(destination|upstream|source)_/, "consul.$1.");
}

/** Answers `/stats` and `/stats/prometheus` as the admin server does, and nothing else. */
export function answerStats(
  view: AdminView,
): (target: string) => Promise<SmallAnswer | undefined> {
  const app = createAdmin(view, { boundHost: "127.0.0.1" });
  return async (target) => {
    if (!/^\/stats(?:\/prometheus)?(?:\?|$)/.test(target)) return undefined;
    const headers = { host: "127.0.0.1" };
    const reply = await app.request(target, { headers }, { peer: "127.0.0.1" });
    const type = reply.headers.get("content-type");
    return { status: reply.status, body: await reply.text(), ...(type !== null && { type }) };
  };
}
