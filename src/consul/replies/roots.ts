/**
 * The certificates that mesh peers are checked against: every root in force, active or not.
 *
 * @module
 */

import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { blockingQuery, cursorOf, readQuery } from "../http/query.ts";
import { flag, list, object, readReply, replyInvalid, someText, text } from "./schema.ts";
import type { Roots } from "../types.ts";

const RootsReply = object({
  ActiveRootID: text,
  TrustDomain: text,
  Roots: list(object({
    ID: text,
    Name: text,
    RootCert: someText,
    Active: flag,
    ExternalTrustDomain: text,
  })),
});

export function readRoots(json: unknown): Roots {
  const reply = readReply(RootsReply, json, "the CA roots");
  // A server answers so until its CA is set up. Taking it would mean to trust nobody.
  if (!reply.TrustDomain || reply.Roots.length === 0) {
    throw replyInvalid("the CA roots", "there is none yet; is Connect enabled on the servers?");
  }
  return {
    activeId: reply.ActiveRootID,
    trustDomain: reply.TrustDomain.toLowerCase(),
    roots: reply.Roots.map((root) => ({
      id: root.ID,
      name: root.Name,
      pem: root.RootCert,
      active: root.Active,
      externalTrustDomain: root.ExternalTrustDomain
        ? `${root.ExternalTrustDomain.toLowerCase()}.consul`
        : "",
    })),
  };
}

export function rootsQuestion(client: Client): PollQuestion<Roots> {
  return {
    name: "roots",
    resource: "roots",
    critical: true,
    dropped: true,
    cursor: "index",
    async poll(request) {
      const reply = await client.call({
        resource: "roots",
        what: "read the CA roots",
        path: "/v1/agent/connect/ca/roots",
        ...blockingQuery(request, readQuery(client, { stale: false })),
      });
      return { value: readRoots(reply.json), ...cursorOf(reply) };
    },
  };
}
