/**
 * The service's own certificate and key. Having got one proves nothing about the token: a cached leaf
 * is handed to anybody.
 *
 * @module
 */

import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { answerOf, blockingQuery, readQuery } from "../http/query.ts";
import { moment, object, readReply, someText, text } from "./schema.ts";
import type { Leaf } from "../types.ts";

const LeafReply = object({
  SerialNumber: text,
  CertPEM: someText,
  PrivateKeyPEM: someText,
  ServiceURI: someText,
  ValidAfter: moment,
  ValidBefore: moment,
});

export function readLeaf(json: unknown): Leaf {
  const reply = readReply(LeafReply, json, "the leaf");
  return {
    certPem: reply.CertPEM,
    keyPem: reply.PrivateKeyPEM,
    uri: reply.ServiceURI,
    serial: reply.SerialNumber,
    notBeforeMs: reply.ValidAfter,
    notAfterMs: reply.ValidBefore,
  };
}

export function leafQuestion(client: Client, service: string): PollQuestion<Leaf> {
  return {
    name: `leaf ${service}`,
    resource: "leaf",
    critical: true,
    dropped: true,
    cursor: "index",
    async poll(request) {
      const reply = await client.call({
        resource: "leaf",
        what: `read the leaf of ${JSON.stringify(service)}`,
        path: `/v1/agent/connect/ca/leaf/${encodeURIComponent(service)}`,
        ...blockingQuery(request, readQuery(client, { stale: false })),
      });
      return answerOf(reply, request, readLeaf);
    },
  };
}
