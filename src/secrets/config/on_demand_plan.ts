/**
 * Certificates fetched when a client asks for their name, in our own form.
 *
 * @module
 */

import * as v from "valibot";
import { fieldsOf, number } from "../envoy/message.ts";
import {
  checked,
  defined,
  duration,
  list,
  reader,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { DEFAULT_ON_DEMAND_RULES, type OnDemandPlan } from "../plan.ts";
import { SDS_ENTRIES, serverOf } from "./sources.ts";
import type { TlsReading } from "./tls_context.ts";

const LIST_LIMIT = 10_000;

const FIELDS = fieldsOf({
  source: v.optional(v.literal("sds", 'must be "sds": nothing else can be asked by name'), "sds"),
  ...SDS_ENTRIES,
  names: list(dnsName(), LIST_LIMIT),
  suffixes: list(suffix(), LIST_LIMIT),
  prefetch: list(text(), LIST_LIMIT),
  defaultName: v.exactOptional(text()),
  maxEntries: v.exactOptional(number(1, 100_000)),
  negativeTtl: v.exactOptional(duration(0)),
  perSourceRate: v.exactOptional(number(1, 1_000_000)),
  maxPending: v.exactOptional(number(1, 100_000)),
  wait: v.exactOptional(duration(1)),
});

export function onDemandPlan(reading: TlsReading): SchemaOf<OnDemandPlan> {
  return checked(FIELDS, (found, report): OnDemandPlan | undefined => {
    const server = serverOf(found.cluster, { reading, report, path: ["cluster"] });
    const { names, suffixes, maxEntries, perSourceRate, maxPending } = found;
    const { negativeTtl: negativeTtlMs, wait: waitMs, api, prefetch, defaultName } = found;
    const limits = defined({ maxEntries, negativeTtlMs, perSourceRate, maxPending, waitMs });
    return server && {
      source: { kind: "sds", server, api },
      rules: { ...DEFAULT_ON_DEMAND_RULES, names, suffixes, ...limits },
      prefetch,
      ...defined({ defaultName }),
    };
  });
}

const DNS_NAME = /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}))*$/;

function dnsName(): SchemaOf<string> {
  return reader((value, report) => {
    const lower = typeof value === "string" && value.length <= 253 ? value.toLowerCase() : "";
    return DNS_NAME.test(lower) ? lower : report([], "must be a DNS name without stars");
  });
}

/** `.example.com` or `*.example.com`. */
function suffix(): SchemaOf<string> {
  return reader((value, report) => {
    const lower = typeof value === "string" && value.length <= 255 ? value.toLowerCase() : "";
    const match = /^\*?\.(.+)$/.exec(lower);
    if (match?.[1] !== undefined && DNS_NAME.test(match[1])) return `.${match[1]}`;
    return report([], 'must be a suffix of DNS names such as ".example.com"');
  });
}
