/**
 * A jwt-provider config entry: the tokens that are valid, where they stand in a request, and where the keys
 * are. A field that is not known here may restrict the provider, so an entry with one gives no keys, and
 * names the field.
 *
 * @module
 */

import * as v from "valibot";
import { issueWords } from "../../base/mod.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { entryQuestion } from "./questions.ts";
import { count, duration, flag, list, someText, text } from "./schema.ts";
import type { JwtKeys, JwtLocation, JwtProvider } from "../model/config_entries.ts";

const RemoteJson = v.strictObject({
  URI: text,
  RequestTimeoutMs: count,
  CacheDuration: duration,
  FetchAsynchronously: flag,
  UseSNI: flag,
  RetryPolicy: v.nullish(v.strictObject({
    NumRetries: count,
    RetryPolicyBackOff: v.nullish(
      v.strictObject({ BaseInterval: duration, MaxInterval: duration }),
    ),
  })),
  JWKSCluster: v.nullish(v.strictObject({
    DiscoveryType: text,
    ConnectTimeout: duration,
    TLSCertificates: v.nullish(v.unknown()),
  })),
});

const EntryJson = v.object({
  Issuer: text,
  Audiences: list(v.string()),
  JSONWebKeySet: v.strictObject({
    Local: v.nullish(v.strictObject({ JWKS: text, Filename: text })),
    Remote: v.nullish(RemoteJson),
  }),
  Locations: list(v.strictObject({
    Header: v.nullish(v.strictObject({ Name: someText, ValuePrefix: text, Forward: flag })),
    QueryParam: v.nullish(v.strictObject({ Name: someText })),
    Cookie: v.nullish(v.strictObject({ Name: someText })),
  })),
  Forwarding: v.nullish(v.strictObject({ HeaderName: someText, PadForwardPayloadHeader: flag })),
  ClockSkewSeconds: count,
  CacheConfig: v.nullish(v.strictObject({ Size: count })),
});
type EntryJson = v.InferOutput<typeof EntryJson>;

/** `null` (no such entry) stays `null`. */
export function readJwtProvider(json: unknown): JwtProvider | null {
  if (json === null) return null;
  const result = v.safeParse(EntryJson, json, { abortEarly: true });
  if (!result.success) {
    const issue = result.issues[0];
    return refusal(`${v.getDotPath(issue) ?? "it"} ${issueWords(issue)}`, json);
  }
  const entry = result.output;
  const keys = keysOf(entry.JSONWebKeySet);
  const locations = entry.Locations.flatMap(locationOf);
  if (typeof keys === "string") return refusal(keys, json);
  if (locations.length < entry.Locations.length) {
    return refusal("a location has not exactly one place", json);
  }
  const { Forwarding: forwarding, CacheConfig: cache } = entry;
  return {
    kind: "usable",
    issuer: entry.Issuer,
    audiences: entry.Audiences,
    keys,
    locations,
    ...(forwarding && {
      forwarding: {
        headerName: forwarding.HeaderName,
        padForwardPayloadHeader: forwarding.PadForwardPayloadHeader,
      },
    }),
    clockSkewSeconds: entry.ClockSkewSeconds,
    ...(cache?.Size && { cacheSize: cache.Size }),
  };
}

const ForwardingJson = v.object({ Forwarding: v.object({ HeaderName: someText }) });

function refusal(reason: string, json: unknown): JwtProvider {
  const read = v.safeParse(ForwardingJson, json);
  return {
    kind: "refused",
    reason,
    ...(read.success && { headerName: read.output.Forwarding.HeaderName }),
  };
}

/** The keys, or why there are none. */
function keysOf({ Local: local, Remote: remote }: EntryJson["JSONWebKeySet"]): JwtKeys | string {
  if (local && remote) return "JSONWebKeySet has both Local and Remote";
  if (local) {
    const { JWKS: jwks, Filename: filename } = local;
    if (jwks && filename) return "JSONWebKeySet.Local has both JWKS and Filename";
    if (filename) return { kind: "file", filename };
    return jwks ? { kind: "text", jwks } : "JSONWebKeySet.Local is empty";
  }
  if (!remote) return "JSONWebKeySet is empty";
  if (remote.JWKSCluster?.TLSCertificates) {
    return "JSONWebKeySet.Remote.JWKSCluster.TLSCertificates is not followed: keys are fetched " +
      "from servers whom the system trusts";
  }
  const backOff = remote.RetryPolicy?.RetryPolicyBackOff;
  return {
    kind: "remote",
    uri: remote.URI,
    requestTimeoutMs: remote.RequestTimeoutMs,
    cacheDurationMs: remote.CacheDuration,
    fetchAsynchronously: remote.FetchAsynchronously,
    retries: remote.RetryPolicy?.NumRetries ?? 0,
    baseIntervalMs: backOff?.BaseInterval ?? 0,
    maxIntervalMs: backOff?.MaxInterval ?? 0,
  };
}

function locationOf(
  { Header: header, QueryParam: queryParam, Cookie: cookie }: EntryJson["Locations"][number],
): readonly JwtLocation[] {
  const places: JwtLocation[] = [];
  if (header) {
    const { Name: name, ValuePrefix: valuePrefix, Forward: forward } = header;
    places.push({ header: { name, valuePrefix, forward } });
  }
  if (queryParam) places.push({ queryParam: { name: queryParam.Name } });
  if (cookie) places.push({ cookie: { name: cookie.Name } });
  return places.length === 1 ? places : [];
}

export function jwtProviderQuestion(
  client: Client,
  name: string,
): PollQuestion<JwtProvider | null> {
  return entryQuestion(client, {
    path: `jwt-provider/${encodeURIComponent(name)}`,
    name: `jwt-provider ${name}`,
    resource: "jwt provider",
    what: `jwt-provider entry ${JSON.stringify(name)}`,
    read: readJwtProvider,
  });
}
