/**
 * The certificates that mesh peers are checked against: every root in force, active or not.
 *
 * @module
 */

import type { PollQuestion } from "../watch/blocking_query.ts";
import type { ClusterPin } from "../cluster_pin.ts";
import type { Client } from "../http/client.ts";
import { answerOf, blockingQuery, readQuery } from "../http/query.ts";
import { flag, list, object, readReply, replyInvalid, someText, text } from "./schema.ts";
import type { Roots } from "../types.ts";

const CLUSTER_TIMEOUT_MS = 10_000;

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

/** Fails with `cluster_changed` where whoever answers is of another cluster. */
export async function judgeCluster(
  client: Client,
  cluster: Pick<ClusterPin, "judge">,
): Promise<void> {
  const { json } = await client.call({
    resource: "cluster",
    what: "learn which cluster answers",
    // Of the servers behind an agent, not of its cache. Any of them knows, with a leader or without.
    path: "/v1/connect/ca/roots",
    flags: ["stale"],
    timeoutMs: CLUSTER_TIMEOUT_MS,
    provesCluster: true,
  });
  const { peer, where } = client.carrier;
  cluster.judge(readRoots(json).trustDomain, `the ${peer} at ${where}`);
}

/** Roots of another cluster are a failure, so that the last ones stay. */
export function rootsQuestion(
  client: Client,
  cluster: Pick<ClusterPin, "judge">,
): PollQuestion<Roots> {
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
      const answer = answerOf(reply, request, readRoots);
      const { peer, where } = client.carrier;
      cluster.judge(answer.value.trustDomain, `the ${peer} at ${where}`);
      return answer;
    },
  };
}
