/**
 * The TLS block of the mesh config entry, which no other reply carries.
 *
 * @module
 */

import * as v from "valibot";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { blockingQuery, cursorOf, readQuery } from "../http/query.ts";
import { list, object, readReply, text } from "./schema.ts";
import type { MeshTls, MeshTlsDirection } from "../types.ts";

const DirectionJson = v.nullish(object({
  TLSMinVersion: text,
  TLSMaxVersion: text,
  CipherSuites: list(v.string()),
}));

const MeshReply = object({
  TLS: v.nullish(object({ Incoming: DirectionJson, Outgoing: DirectionJson })),
});

/** `null` (no such entry) stays `null`. */
export function readMeshTls(json: unknown): MeshTls | null {
  if (json === null) return null;
  const { TLS: tls } = readReply(MeshReply, json, "the mesh config entry");
  return tls ? { incoming: toDirection(tls.Incoming), outgoing: toDirection(tls.Outgoing) } : null;
}

function toDirection(json: v.InferOutput<typeof DirectionJson>): MeshTlsDirection {
  return {
    minVersion: json?.TLSMinVersion ?? "",
    maxVersion: json?.TLSMaxVersion ?? "",
    cipherSuites: json?.CipherSuites ?? [],
  };
}

export function meshTlsQuestion(client: Client): PollQuestion<MeshTls | null> {
  return {
    name: "mesh",
    resource: "mesh",
    critical: false,
    dropped: false,
    cursor: "index",
    async poll(request) {
      const reply = await client.call({
        resource: "mesh",
        what: "read the mesh config entry",
        path: "/v1/config/mesh/mesh",
        absentIsAnswer: true,
        ...blockingQuery(request, readQuery(client, { stale: true })),
      });
      return { value: readMeshTls(reply.json), ...cursorOf(reply) };
    },
  };
}
