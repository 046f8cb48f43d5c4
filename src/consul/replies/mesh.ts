/**
 * The mesh config entry's blocks about TLS and HTTP, which no other reply carries.
 *
 * @module
 */

import * as v from "valibot";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { answerOf, blockingQuery, readQuery } from "../http/query.ts";
import { namedKeys } from "./config_keys.ts";
import { isGone } from "./missing.ts";
import { flag, list, object, readReply, text } from "./schema.ts";
import type { Mesh, MeshHttp, MeshTlsDirection } from "../entry_types.ts";

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
    sanitizesForwardedClientCert: json.SanitizeXForwardedClientCert ?? false,
    normalizesPaths: rules?.InsecureDisablePathNormalization !== true,
    mergesSlashes: rules?.MergeSlashes ?? false,
    escapedSlashesAction: rules?.PathWithEscapedSlashesAction ?? "",
    underscoresAction: rules?.HeadersWithUnderscoresAction ?? "",
  };
}

export function meshQuestion(client: Client): PollQuestion<Mesh | null> {
  return {
    name: "mesh",
    resource: "mesh",
    critical: false,
    dropped: false,
    isRare: true,
    cursor: "index",
    lacks: isGone,
    async poll(request) {
      const reply = await client.call({
        resource: "mesh",
        what: "read the mesh config entry",
        path: "/v1/config/mesh/mesh",
        absentIsAnswer: true,
        ...blockingQuery(request, readQuery(client, { stale: true })),
      });
      return answerOf(reply, request, readMesh);
    },
  };
}
