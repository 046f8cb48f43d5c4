/**
 * A jwt-provider config entry: whose tokens are good, where they stand in a request, where the keys are.
 * What is not known here may be what narrows it down, so that such an entry gives no keys, and says why.
 *
 * @module
 */

import * as v from "valibot";
import { issueWords } from "../../base/mod.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { answerOf, blockingQuery, readQuery } from "../http/query.ts";
import { isGone } from "./missing.ts";
import { count, duration, flag, list, someText, text } from "./schema.ts";
import type { JwtKeys, JwtLocation, JwtProvider } from "../entry_types.ts";

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
  const locations = (entry.Locations ?? []).flatMap(locationOf);
  if (typeof keys === "string") return refusal(keys, json);
  if (locations.length < (entry.Locations ?? []).length) {
    return refusal("a location has not exactly one place", json);
  }
  const { Forwarding: forwarding, CacheConfig: cache } = entry;
  return {
    kind: "usable",
    issuer: entry.Issuer ?? "",
    audiences: entry.Audiences ?? [],
    keys,
    locations,
    ...(forwarding && {
      forwarding: {
        headerName: forwarding.HeaderName,
        padForwardPayloadHeader: forwarding.PadForwardPayloadHeader ?? false,
      },
    }),
    clockSkewSeconds: entry.ClockSkewSeconds ?? 0,
    ...(cache?.Size && { cacheSize: cache.Size }),
  };
}

const ForwardingJson = v.object({ Forwarding: v.object({ HeaderName: someText }) });

function refusal(reason: string, json: unknown): JwtProvider {
  const read = v.safeParse(ForwardingJson, json);
  return {
    ...{ kind: "refused", reason },
    ...(read.success && { headerName: read.output.Forwarding.HeaderName }),
  };
}

/** A text says why there are none. */
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
    uri: remote.URI ?? "",
    requestTimeoutMs: remote.RequestTimeoutMs ?? 0,
    cacheDurationMs: remote.CacheDuration,
    fetchAsynchronously: remote.FetchAsynchronously ?? false,
    retries: remote.RetryPolicy?.NumRetries ?? 0,
    baseIntervalMs: backOff?.BaseInterval ?? 0,
    maxIntervalMs: backOff?.MaxInterval ?? 0,
  };
}

function locationOf(
  { Header: header, QueryParam: queryParam, Cookie: cookie }: NonNullable<
    EntryJson["Locations"]
  >[number],
): readonly JwtLocation[] {
  const places: JwtLocation[] = [];
  if (header) {
    const { Name: name, ValuePrefix, Forward } = header;
    places.push({
      header: { name, valuePrefix: ValuePrefix ?? "", forward: Forward ?? false },
    });
  }
  if (queryParam) places.push({ queryParam: { name: queryParam.Name } });
  if (cookie) places.push({ cookie: { name: cookie.Name } });
  return places.length === 1 ? places : [];
}

export function jwtProviderQuestion(
  client: Client,
  name: string,
): PollQuestion<JwtProvider | null> {
  return {
    name: `jwt-provider ${name}`,
    resource: "jwt provider",
    critical: false,
    dropped: false,
    isRare: true,
    cursor: "index",
    lacks: isGone,
    async poll(asked) {
      const reply = await client.call({
        resource: "jwt provider",
        what: `read the jwt-provider entry ${JSON.stringify(name)}`,
        path: `/v1/config/jwt-provider/${encodeURIComponent(name)}`,
        absentIsAnswer: true,
        ...blockingQuery(asked, readQuery(client, { stale: true })),
      });
      return answerOf(reply, asked, readJwtProvider);
    },
  };
}
