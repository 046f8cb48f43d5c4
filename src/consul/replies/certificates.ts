/**
 * The service's own certificate and key, and the certificates that mesh peers are checked against: every
 * root in force, active or not. A leaf proves nothing about the token: the agent gives a cached one to any
 * caller.
 *
 * @module
 */

import * as v from "valibot";
import type { Client } from "../http/client.ts";
import type { ClusterPin } from "../http/cluster.ts";
import type { Leaf, Roots } from "../model/values.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import { callQuestion } from "./questions.ts";
import { flag, list, moment, readReply, renamed, replyInvalid, someText, text } from "./schema.ts";

const CLUSTER_TIMEOUT_MS = 10_000;

const LeafReply = renamed({
  certPem: ["CertPEM", someText],
  keyPem: ["PrivateKeyPEM", someText],
  uri: ["ServiceURI", someText],
  serial: ["SerialNumber", text],
  notBeforeMs: ["ValidAfter", moment],
  notAfterMs: ["ValidBefore", moment],
});

const lowerCase = v.pipe(text, v.toLowerCase());

const RootsReply = renamed({
  activeId: ["ActiveRootID", text],
  trustDomain: ["TrustDomain", lowerCase],
  roots: [
    "Roots",
    list(renamed({
      id: ["ID", text],
      name: ["Name", text],
      pem: ["RootCert", someText],
      active: ["Active", flag],
      externalTrustDomain: [
        "ExternalTrustDomain",
        v.pipe(lowerCase, v.transform((id) => id && `${id}.consul`)),
      ],
    })),
  ],
});

export function readLeaf(json: unknown): Leaf {
  return readReply(LeafReply, json, "the leaf");
}

export function readRoots(json: unknown): Roots {
  const roots = readReply(RootsReply, json, "the CA roots");
  // A server's reply until its CA is set up; believing it would mean to trust no peer at all.
  if (roots.trustDomain && roots.roots.length > 0) return roots;
  throw replyInvalid("the CA roots", "there is none yet; is Connect enabled on the servers?");
}

export function leafQuestion(client: Client, service: string): PollQuestion<Leaf> {
  return callQuestion(client, {
    name: `leaf ${service}`,
    resource: "leaf",
    isCritical: true,
    isDropped: true,
    call: {
      what: `read the leaf of ${JSON.stringify(service)}`,
      path: `/v1/agent/connect/ca/leaf/${encodeURIComponent(service)}`,
      isLocal: true,
    },
    read: readLeaf,
  });
}

/** Roots of another cluster are a failure, so that the last ones stay. */
export function rootsQuestion(
  client: Client,
  cluster: Pick<ClusterPin, "judge">,
): PollQuestion<Roots> {
  return callQuestion(client, {
    name: "roots",
    resource: "roots",
    isCritical: true,
    isDropped: true,
    call: { what: "read the CA roots", path: "/v1/agent/connect/ca/roots", isLocal: true },
    read: readRoots,
    finish(roots) {
      cluster.judge(roots.trustDomain, peerOf(client));
      return roots;
    },
  });
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
