/**
 * The service's own certificate and key, and the certificates that mesh peers are checked against: every
 * root in force, active or not. A leaf proves nothing about the token: the agent gives a cached one to any
 * caller.
 * @module
 */

import type { Client } from "../http/client.ts";
import type { ClusterPin } from "../http/cluster.ts";
import type { Leaf, Roots } from "../model/values.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import { answerOf, pollCall } from "./questions.ts";
import { flag, list, moment, object, readReply, replyInvalid, someText, text } from "./schema.ts";

const CLUSTER_TIMEOUT_MS = 10_000;

const LeafReply = object({
  SerialNumber: text,
  CertPEM: someText,
  PrivateKeyPEM: someText,
  ServiceURI: someText,
  ValidAfter: moment,
  ValidBefore: moment,
});

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

export function readRoots(json: unknown): Roots {
  const reply = readReply(RootsReply, json, "the CA roots");
  // A server's reply until its CA is set up; believing it would mean to trust no peer at all.
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

export function leafQuestion(client: Client, service: string): PollQuestion<Leaf> {
  return {
    name: `leaf ${service}`,
    resource: "leaf",
    isCritical: true,
    isDropped: true,
    async poll(request) {
      const reply = await pollCall(client, request, {
        resource: "leaf",
        what: `read the leaf of ${JSON.stringify(service)}`,
        path: `/v1/agent/connect/ca/leaf/${encodeURIComponent(service)}`,
        isLocal: true,
      });
      return answerOf(reply, request, readLeaf);
    },
  };
}

/** Roots of another cluster are a failure, so that the last ones stay. */
export function rootsQuestion(
  client: Client,
  cluster: Pick<ClusterPin, "judge">,
): PollQuestion<Roots> {
  return {
    name: "roots",
    resource: "roots",
    isCritical: true,
    isDropped: true,
    async poll(request) {
      const reply = await pollCall(client, request, {
        resource: "roots",
        what: "read the CA roots",
        path: "/v1/agent/connect/ca/roots",
        isLocal: true,
      });
      const answer = answerOf(reply, request, readRoots);
      cluster.judge(answer.value.trustDomain, peerOf(client));
      return answer;
    },
  };
}

/** Fails with `cluster_changed` where another cluster answers. */
export async function judgeCluster(
  client: Client,
  cluster: Pick<ClusterPin, "judge">,
): Promise<void> {
  const { json } = await client.call({
    resource: "cluster",
    what: "learn which cluster answers",
    // The servers' own, not an agent's cached ones. Any server has them, with a leader or without.
    path: "/v1/connect/ca/roots",
    flags: ["stale"],
    timeoutMs: CLUSTER_TIMEOUT_MS,
    provesCluster: true,
  });
  cluster.judge(readRoots(json).trustDomain, peerOf(client));
}

function peerOf({ carrier: { peer, where } }: Client): string {
  return `the ${peer} at ${where}`;
}
