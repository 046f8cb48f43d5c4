/**
 * Config entries that Consul merges into no registration: the mesh entry's blocks about TLS and HTTP, and
 * Envoy extensions and Enterprise limits of service-defaults and proxy-defaults.
 *
 * @module
 */

import * as v from "valibot";
import { prepareRegexes } from "../../base/mod.ts";
import { defined } from "../../base/schema.ts";
import type { Client } from "../http/client.ts";
import type { Defaults, Mesh } from "../model/config_entries.ts";
import type { DefaultsRequest } from "../model/consul.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import { namedKeys } from "./named_keys.ts";
import { ProxyConfig } from "./proxy_config.ts";
import { entryQuestion } from "./questions.ts";
import { count, flag, list, object, readReply, renamed, text } from "./schema.ts";

const DirectionJson = v.nullish(
  renamed({
    minVersion: ["TLSMinVersion", text],
    maxVersion: ["TLSMaxVersion", text],
    cipherSuites: ["CipherSuites", list(v.string())],
  }),
  {},
);

const NormalizationJson = v.nullish(
  renamed({
    normalizesPaths: [
      "InsecureDisablePathNormalization",
      v.pipe(flag, v.transform((isOff) => !isOff)),
    ],
    mergesSlashes: ["MergeSlashes", flag],
    escapedSlashesAction: ["PathWithEscapedSlashesAction", text],
    underscoresAction: ["HeadersWithUnderscoresAction", text],
  }),
  {},
);

const HttpJson = v.pipe(
  object({
    SanitizeXForwardedClientCert: flag,
    Incoming: v.nullish(object({ RequestNormalization: NormalizationJson }), {}),
  }),
  v.transform(({ SanitizeXForwardedClientCert, Incoming }) => ({
    sanitizesForwardedClientCert: SanitizeXForwardedClientCert,
    ...Incoming.RequestNormalization,
  })),
);

const MeshReply = object({
  TLS: v.nullish(renamed({
    incoming: ["Incoming", DirectionJson],
    outgoing: ["Outgoing", DirectionJson],
  })),
  HTTP: v.nullish(HttpJson),
});

const RATE = {
  requestsPerSecond: ["RequestsPerSecond", count],
  burst: ["RequestsMaxBurst", count],
} as const;

const DefaultsReply = object({
  Config: v.nullish(v.unknown()),
  MutualTLSMode: text,
  EnvoyExtensions: list(renamed({
    name: ["Name", text],
    required: ["Required", flag],
    arguments: ["Arguments", v.nullish(v.unknown(), {})],
  })),
  RateLimits: v.nullish(object({
    InstanceLevel: v.nullish(renamed({
      ...RATE,
      routes: [
        "Routes",
        list(renamed({
          ...RATE,
          exact: ["PathExact", text],
          prefix: ["PathPrefix", text],
          regex: ["PathRegex", text],
        })),
      ],
    })),
  })),
});

/** `null` (no such entry) stays `null`. */
export function readMesh(json: unknown): Mesh | null {
  if (json === null) return null;
  const { TLS: tls, HTTP: http } = readReply(MeshReply, json, "the mesh config entry");
  const warnings = namedKeys(json, { place: "mesh", where: "The mesh config entry" });
  return { ...(warnings.length > 0 && { warnings }), ...(tls && { tls }), ...(http && { http }) };
}

/** `null` (no such entry) stays `null`. */
export function readDefaults(json: unknown, { kind, name }: DefaultsRequest): Defaults | null {
  if (json === null) return null;
  const where = `the ${kind} entry ${JSON.stringify(name)}`;
  const entry = readReply(DefaultsReply, json, where);
  const rateLimits = entry.RateLimits?.InstanceLevel;
  const warnings = namedKeys(json, { place: kind, where: `T${where.slice(1)}` });
  // Keys of `Config` are named where the registration has them, after Consul has merged them.
  const config = new ProxyConfig(kind === "proxy-defaults" ? entry.Config : undefined, {
    where,
    warnings: [],
  });
  return defined({
    plugins: config.raw("postern_plugins"),
    upstreamPlugins: config.raw("postern_upstream_plugins"),
    mutualTlsMode: entry.MutualTLSMode || undefined,
    warnings: warnings.length > 0 ? warnings : undefined,
    extensions: entry.EnvoyExtensions,
    rateLimits: rateLimits ?? undefined,
  });
}

export function meshQuestion(client: Client): PollQuestion<Mesh | null> {
  return entryQuestion(client, {
    path: "mesh/mesh",
    name: "mesh",
    resource: "mesh",
    what: "mesh config entry",
    read: readMesh,
  });
}

export function defaultsQuestion(
  client: Client,
  request: DefaultsRequest,
): PollQuestion<Defaults | null> {
  const { kind, name } = request;
  return entryQuestion<Defaults>(client, {
    path: `${kind}/${encodeURIComponent(name)}`,
    name: `${kind} ${name}`,
    resource: "defaults",
    what: `${kind} entry ${JSON.stringify(name)}`,
    read: (json) => readDefaults(json, request),
    async finish(defaults) {
      if (defaults?.rateLimits?.routes.some(({ regex }) => regex !== "")) await prepareRegexes();
      return defaults;
    },
  });
}
