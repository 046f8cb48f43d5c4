/** HTTP settings of a configuration file: schema, contradictions, rules. @module */

import * as v from "valibot";
import type { PathRules } from "../../http/mod.ts";
import { count, defined, duration, object, type Problem } from "../../base/schema.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import {
  type HttpSettings,
  inboundHttp,
  INCOMING_PATH,
  UNJUDGED_PATH,
  unjudgedHttp,
} from "../parts/http_rules.ts";

const flag = () => v.optional(v.boolean("must be true or false"));

export const PROTOCOL = v.optional(
  v.picklist(["tcp", "http", "http2", "grpc"], "must be tcp, http, http2 or grpc"),
  "tcp",
);

/** Earlier versions had a flag. */
const SHOWN_DENIALS = v.optional(
  v.union(
    [v.picklist(["off", "code", "rule"]), v.boolean()],
    "must be off, code or rule",
  ),
);

const SHARED = {
  requestTimeout: v.optional(duration(0)),
  streamIdleTimeout: v.optional(duration(0)),
  headBytes: v.optional(count(1_024, 8_388_608)),
  paths: v.optional(object({
    normalize: flag(),
    mergeSlashes: flag(),
    escapedSlashes: v.optional(v.picklist(
      ["keep", "reject", "unescape", "redirect"],
      "must be keep, reject, unescape or redirect",
    )),
    underscores: v.optional(
      v.picklist(["allow", "reject", "drop"], "must be allow, reject or drop"),
    ),
  })),
};

export const UPSTREAM_HTTP = v.optional(object({ ...SHARED, showDenials: SHOWN_DENIALS }));

export const INBOUND_HTTP = v.optional(object({
  ...SHARED,
  sanitizeForwardedClientCert: flag(),
  showDenials: SHOWN_DENIALS,
}));

type Protocol = v.InferOutput<typeof PROTOCOL>;
type InboundHttp = v.InferOutput<typeof INBOUND_HTTP>;
type UpstreamHttp = v.InferOutput<typeof UPSTREAM_HTTP>;

interface HttpOf<Http> {
  readonly protocol: Protocol;
  readonly http?: Http;
}

export function fileInboundHttp({ protocol, http }: HttpOf<InboundHttp>): HttpRules | null {
  return inboundHttp(protocol, {
    ...settingsOf(http, INCOMING_PATH),
    ...defined({ sanitizeForwardedClientCert: http?.sanitizeForwardedClientCert }),
  });
}

export function fileUpstreamHttp({ protocol, http }: HttpOf<UpstreamHttp>): HttpRules | null {
  return unjudgedHttp(protocol, settingsOf(http, UNJUDGED_PATH));
}

function settingsOf(http: UpstreamHttp, path: PathRules): HttpSettings {
  const shown = http?.showDenials;
  return {
    showDenials: shown === true ? "rule" : shown === false ? "off" : shown,
    path: { ...path, ...defined({ ...http?.paths }) },
    headBytes: http?.headBytes,
    requestTimeoutMs: http?.requestTimeout,
    streamIdleTimeoutMs: http?.streamIdleTimeout,
  };
}

/** Settings of `inbound` or an upstream that need another protocol; paths begin at it. */
export function httpContradictions(
  { protocol, http, maxRequests }: {
    readonly protocol: Protocol;
    readonly http?: InboundHttp;
    readonly maxRequests?: number | undefined;
  },
): readonly Problem[] {
  const found: Problem[] = [];
  const needs = 'needs "protocol": "http", "http2" or "grpc" beside it';
  if (protocol === "tcp") {
    if (http !== undefined) found.push({ path: ["http"], message: needs });
    if (maxRequests !== undefined) found.push({ path: ["maxRequests"], message: needs });
  }
  if (protocol === "grpc" && http?.sanitizeForwardedClientCert === false) {
    found.push({
      path: ["http", "sanitizeForwardedClientCert"],
      message: "must be true or left out: a gRPC service is told nothing of its callers",
    });
  }
  return found;
}
