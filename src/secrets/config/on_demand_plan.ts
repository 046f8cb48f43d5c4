/**
 * Certificates fetched when a client asks for their name, in our own form.
 *
 * @module
 */

import * as v from "valibot";
import { list, message, number, type Reader, reader, type Report } from "../envoy/message.ts";
import { DEFAULT_ON_DEMAND_RULES, type OnDemandPlan } from "../plan.ts";
import { duration, text } from "../values.ts";
import type { TlsConfigContext } from "./tls_context.ts";
import { SDS_ENTRIES, serverOf } from "./sources.ts";

const LIST_LIMIT = 10_000;

const FIELDS = message({
  source: v.optional(v.literal("sds", 'must be "sds": nothing else can be asked by name'), "sds"),
  ...SDS_ENTRIES,
  names: list(dnsName(), LIST_LIMIT),
  suffixes: list(suffix(), LIST_LIMIT),
  prefetch: list(text(), LIST_LIMIT),
  defaultName: v.optional(text()),
  maxEntries: v.optional(number(1, 100_000)),
  negativeTtl: v.optional(duration(0)),
  perSourceRate: v.optional(number(1, 1_000_000)),
  maxPending: v.optional(number(1, 100_000)),
  wait: v.optional(duration(1)),
}, { names: "camelCase" });

export const ON_DEMAND: typeof FIELDS = FIELDS;

export function onDemandPlan(
  found: v.InferOutput<typeof FIELDS>,
  options: { readonly context: TlsConfigContext; readonly report: Report },
): OnDemandPlan | undefined {
  const server = serverOf(found.cluster, { ...options, path: ["cluster"] });
  const { defaultName, prefetch } = found;
  const defaults = DEFAULT_ON_DEMAND_RULES;
  return server && {
    source: { kind: "sds", server, api: found.api },
    rules: {
      names: found.names,
      suffixes: found.suffixes,
      maxEntries: found.maxEntries ?? defaults.maxEntries,
      negativeTtlMs: found.negativeTtl ?? defaults.negativeTtlMs,
      perSourceRate: found.perSourceRate ?? defaults.perSourceRate,
      maxPending: found.maxPending ?? defaults.maxPending,
      waitMs: found.wait ?? defaults.waitMs,
    },
    prefetch,
    ...(defaultName !== undefined && { defaultName }),
  };
}

const DNS_NAME = /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}))*$/;

function dnsName(): Reader<string> {
  return reader((value, report) => {
    const lower = typeof value === "string" && value.length <= 253 ? value.toLowerCase() : "";
    return DNS_NAME.test(lower) ? lower : report([], "must be a DNS name without stars");
  });
}

/** `.example.com` or `*.example.com`. */
function suffix(): Reader<string> {
  return reader((value, report) => {
    const lower = typeof value === "string" && value.length <= 255 ? value.toLowerCase() : "";
    const match = /^\*?\.(.+)$/.exec(lower);
    if (match?.[1] !== undefined && DNS_NAME.test(match[1])) return `.${match[1]}`;
    return report([], 'must be a suffix of DNS names such as ".example.com"');
  });
}
