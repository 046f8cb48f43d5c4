/**
 * `ConnectCAService/Sign`: who may have which certificate, and how many a cluster signs.
 *
 * @module
 */

import { type Clock, sleep } from "../../../base/mod.ts";
import { GRPC_STATUS } from "../../../http/mod.ts";
import type { Authorizer } from "../../acl/acl.ts";
import type { Ca } from "../../ca/ca.ts";
import { readSigningRequest, type SigningRequest } from "../../ca/csr.ts";
import { GrpcRefusal } from "./grpc_server.ts";

export interface SignContext {
  readonly ca: Ca;
  readonly datacenter: string;
  readonly authorizer: Authorizer;
}

/** PEM of the leaf and what links it to the root. Throws {@link GrpcRefusal}. */
export function signRequest(pem: string, { ca, datacenter, authorizer }: SignContext): string {
  if (pem === "") throw invalid("CSR is required");
  const request = readRequest(pem);
  const { uris, publicKey, altNames } = request;
  if (uris.length !== 1) {
    throw invalid(`CSR SAN contains an invalid number of URIs: ${uris.length}`);
  }
  const asked = readMeshUri(uris[0] ?? "");
  if (asked.trustDomain.toLowerCase() !== ca.trustDomain) {
    throw invalid(
      `SPIFFE ID in CSR from a different trust domain: ${asked.trustDomain}, we are ${ca.trustDomain}`,
    );
  }
  if (asked.datacenter !== datacenter) {
    throw invalid(
      `SPIFFE ID in CSR from a different datacenter: ${asked.datacenter}, we are ${datacenter}`,
    );
  }
  const { namespace, partition } = asked;
  if (namespace !== "default" || partition !== "default") {
    throw invalid(
      "Non default partition or namespace is supported in Enterprise only." +
        `Provided namespace is ${namespace} and partition is ${partition}`,
    );
  }
  const [resource, segment] = asked.right;
  authorizer.require(resource, "write", segment);
  if (publicKey.asymmetricKeyType === "ed25519") throw unsigned();
  return ca.certify(publicKey, altNames);
}

/** Lets so many through in a second, without bursts; who would wait for longer than half a second is refused. */
export class SigningPace {
  readonly #clock: Clock;
  readonly #perSecond: number;
  #nextMs = 0;

  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
  }

  async turn(): Promise<void> {
    const nowMs = this.#clock.monotonic();
    const atMs = Math.max(nowMs, this.#nextMs);
    if (atMs - nowMs > 500) {
      throw new GrpcRefusal(
        GRPC_STATUS.resourceExhausted,
        "Rate limit reached, try again later",
      );
    }
    this.#nextMs = atMs + 1000 / this.#perSecond;
    if (atMs > nowMs) await sleep(this.#clock, atMs - nowMs);
  }
}

interface MeshUri {
  readonly trustDomain: string;
  readonly datacenter: string;
  readonly namespace: string;
  readonly partition: string;
  /** Resource and segment whose write right the sender needs. */
  readonly right: readonly [resource: string, segment: string];
}

function readMeshUri(uri: string): MeshUri {
  const [, trustDomain = "", path = ""] = /^spiffe:\/\/([^/]+)(\/.*)?$/.exec(uri) ?? [];
  if (trustDomain === "") throw unsigned();
  if (path === "") throw invalid("SPIFFE ID in CSR must be a service, mesh-gateway, or agent ID");
  const [, ap, rest = ""] = /^(?:\/ap\/([^/]+))?(\/.*)$/.exec(path) ?? [];
  const partition = ap ?? "default";
  const service = /^\/ns\/([^/]+)\/dc\/([^/]+)\/svc\/([^/]+)$/.exec(rest);
  if (service) {
    const [, namespace = "", datacenter = "", name = ""] = service.map(decodeURIComponent);
    return { trustDomain, datacenter, namespace, partition, right: ["service", name] };
  }
  const namespace = "default";
  const gateway = /^\/gateway\/mesh\/dc\/([^/]+)$/.exec(rest);
  if (gateway) {
    const datacenter = gateway[1] ?? "";
    return { trustDomain, datacenter, namespace, partition, right: ["mesh", ""] };
  }
  const agent = /^\/agent\/client\/dc\/([^/]+)\/id\/([^/]+)$/.exec(rest);
  if (agent) {
    const [, datacenter = "", node = ""] = agent;
    return { trustDomain, datacenter, namespace, partition, right: ["node", node] };
  }
  const server = /^\/agent\/server\/dc\/([^/]+)$/.exec(rest);
  if (!server) throw unsigned();
  return { trustDomain, datacenter: server[1] ?? "", namespace, partition, right: ["acl", ""] };
}

function readRequest(pem: string): SigningRequest {
  let request: SigningRequest | undefined;
  try {
    request = readSigningRequest(pem);
  } catch {
    throw unsigned();
  }
  if (!request) throw invalid("no PEM-encoded data found");
  return request;
}

function invalid(text: string): GrpcRefusal {
  return new GrpcRefusal(GRPC_STATUS.invalidArgument, text);
}

/** What Consul says of all that it has no better word for. */
function unsigned(): GrpcRefusal {
  return new GrpcRefusal(GRPC_STATUS.internal, "failed to sign leaf certificate");
}
