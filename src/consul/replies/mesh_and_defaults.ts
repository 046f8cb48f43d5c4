/**
 * Config entries that Consul merges into no registration: the mesh entry's blocks about TLS and HTTP, and
 * Envoy extensions and Enterprise limits of service-defaults and proxy-defaults.
 * @module
 */

import * as v from "valibot";
import { prepareRegexes } from "../../base/mod.ts";
import type { Client } from "../http/client.ts";
import type { Defaults, Mesh, MeshHttp, MeshTlsDirection } from "../model/config_entries.ts";
import type { DefaultsRequest } from "../model/consul.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import { namedKeys } from "./named_keys.ts";
import { entryQuestion } from "./questions.ts";
import { count, flag, list, object, readReply, text } from "./schema.ts";

const DirectionJson = v.nullish(object({
  TLSMinVersion: text,
  TLSMaxVersion: text,
  CipherSuites: list(v.string()),
}));

const HttpJson = object({
  SanitizeXForwardedClientCert: flag,
  Incoming: v.nullish(object({
    RequestNormalization: v.nullish(object({
      InsecureDisablePathNormalization: flag,
      MergeSlashes: flag,
      PathWithEscapedSlashesAction: text,
      HeadersWithUnderscoresAction: text,
    })),
  })),
});

const MeshReply = object({
  TLS: v.nullish(object({ Incoming: DirectionJson, Outgoing: DirectionJson })),
  HTTP: v.nullish(HttpJson),
});

const RATE = { RequestsPerSecond: count, RequestsMaxBurst: count };

const DefaultsReply = object({
  MutualTLSMode: text,
  EnvoyExtensions: list(object({
    Name: text,
    Required: flag,
    Arguments: v.nullish(v.unknown()),
  })),
  RateLimits: v.nullish(object({
    InstanceLevel: v.nullish(object({
      ...RATE,
      Routes: list(object({ ...RATE, PathExact: text, PathPrefix: text, PathRegex: text })),
    })),
  })),
});

/** `null` (no such entry) stays `null`. */
export function readMesh(json: unknown): Mesh | null {
  if (json === null) return null;
  const { TLS: tls, HTTP: http } = readReply(MeshReply, json, "the mesh config entry");
  const warnings = namedKeys(json, { place: "mesh", where: "The mesh config entry" });
  return {
    ...(warnings.length > 0 && { warnings }),
    ...(tls && {
      tls: { incoming: toDirection(tls.Incoming), outgoing: toDirection(tls.Outgoing) },
    }),
    ...(http && { http: toHttp(http) }),
  };
}

function toDirection(json: v.InferOutput<typeof DirectionJson>): MeshTlsDirection {
  return {
    minVersion: json?.TLSMinVersion ?? "",
    maxVersion: json?.TLSMaxVersion ?? "",
    cipherSuites: json?.CipherSuites ?? [],
  };
}

function toHttp(json: v.InferOutput<typeof HttpJson>): MeshHttp {
  const rules = json.Incoming?.RequestNormalization;
  return {
    sanitizesForwardedClientCert: json.SanitizeXForwardedClientCert,
    normalizesPaths: rules?.InsecureDisablePathNormalization !== true,
    mergesSlashes: rules?.MergeSlashes ?? false,
    escapedSlashesAction: rules?.PathWithEscapedSlashesAction ?? "",
    underscoresAction: rules?.HeadersWithUnderscoresAction ?? "",
  };
}

/** `null` (no such entry) stays `null`. */
export function readDefaults(json: unknown, { kind, name }: DefaultsRequest): Defaults | null {
  if (json === null) return null;
  const where = `the ${kind} entry ${JSON.stringify(name)}`;
  const entry = readReply(DefaultsReply, json, where);
  const limits = entry.RateLimits?.InstanceLevel;
  const warnings = namedKeys(json, { place: kind, where: `T${where.slice(1)}` });
  return {
    ...(entry.MutualTLSMode && { mutualTlsMode: entry.MutualTLSMode }),
    ...(warnings.length > 0 && { warnings }),
    extensions: entry.EnvoyExtensions.map(({ Name, Required, Arguments }) => ({
      name: Name,
      required: Required,
      arguments: Arguments ?? {},
    })),
    ...(limits && {
      rateLimits: {
        ...rateOf(limits),
        routes: limits.Routes.map((route) => ({
          ...rateOf(route),
          exact: route.PathExact,
          prefix: route.PathPrefix,
          regex: route.PathRegex,
        })),
      },
    }),
  };
}

function rateOf(
  json: { readonly RequestsPerSecond: number; readonly RequestsMaxBurst: number },
): { readonly requestsPerSecond: number; readonly burst: number } {
  return { requestsPerSecond: json.RequestsPerSecond, burst: json.RequestsMaxBurst };
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
    prepare: ({ rateLimits }) =>
      rateLimits?.routes.some(({ regex }) => regex !== "") ? prepareRegexes() : undefined,
  });
}
