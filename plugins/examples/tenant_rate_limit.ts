/**
 * Example: limits the requests a second of each tenant, with a burst of the same size. A header names the
 * tenant; all requests without it share one bucket.
 *
 * @module
 */

import * as v from "valibot";
import type { Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const Config = v.strictObject({
  header: v.optional(v.string(), "x-tenant"),
  perSecond: v.pipe(v.number(), v.minValue(1)),
});

/** Buckets of the most recent tenants; a tenant that is forgotten begins with a full bucket again. */
const MAX_TENANTS = 10_000;

interface Bucket {
  tokens: number;
  atMs: number;
}

export default {
  name: "tenant_rate_limit",
  api: 1,
  phase: "guard",
  config: Config,
  create(host, { header, perSecond }): Plugin {
    const refused = host.stats.counter("refused", { help: "Requests over their tenant's limit" });
    // A reload does not refill buckets.
    const buckets = host.shared("buckets", () => new Map<string, Bucket>());
    return {
      onRequest({ request, exchange }, next) {
        const who = exchange.connection.source?.uri ?? "";
        const bucket = take(buckets, `${who} ${request.headers.get(header) ?? ""}`);
        const now = host.clock.now();
        const grown = bucket.tokens + (now - bucket.atMs) / 1_000 * perSecond;
        bucket.tokens = Math.min(perSecond, grown);
        bucket.atMs = now;
        if (bucket.tokens < 1) {
          refused.add(1);
          return host.refuse("rate_limited", `more than ${perSecond} requests a second`)
            .with({ headers: { set: { "retry-after": "1" } } });
        }
        bucket.tokens--;
        return next();
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

/** Moves the bucket to the end of the map; buckets at the beginning are dropped. */
function take(buckets: Map<string, Bucket>, tenant: string): Bucket {
  const bucket = buckets.get(tenant) ?? { tokens: Infinity, atMs: 0 };
  buckets.delete(tenant);
  buckets.set(tenant, bucket);
  const [oldest] = buckets.keys();
  if (buckets.size > MAX_TENANTS && oldest !== undefined) buckets.delete(oldest);
  return bucket;
}
