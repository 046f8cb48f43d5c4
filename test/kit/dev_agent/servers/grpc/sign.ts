/**
 * `ConnectCAService/Sign`: which certificate a token may have, and how many a cluster signs.
 *
 * @module
 */

import { type Clock, sleep } from "../../../../../src/base/mod.ts";
import { parsePem } from "../../../../../src/wire/mod.ts";
import { GRPC_STATUS } from "../../../../../src/http/mod.ts";
import { LEAF_TTL_MS, serialBytes } from "../../../../../src/dev/ca/ca.ts";
import type { World } from "../../../../../src/dev/world.ts";
import { Authority } from "../../../certs/authority.ts";
import { readSigningRequest, type SigningRequest } from "../../../certs/signing_request.ts";
import type { Authorizer } from "../../acl/acl.ts";
import { GrpcRefusal } from "./grpc_server.ts";

/** PEM of the leaf and of what links it to the root. Throws {@link GrpcRefusal}. */
export function signRequest(pem: string, world: World, authorizer: Authorizer): string {
  const { ca, datacenter, clock } = world;
  if (pem === "") throw invalid("CSR is required");
  const request = readRequest(pem);
  const { uris, publicKey, altNames } = request;
  if (uris.length !== 1) {
    throw invalid(`CSR SAN contains an invalid number of URIs: ${uris.length}`);
  }
  const wanted = readMeshUri(uris[0] ?? "");
  if (wanted.trustDomain.toLowerCase() !== ca.trustDomain) {
    throw invalid(
      `SPIFFE ID in CSR from a different trust domain: ${wanted.trustDomain}, we are ${ca.trustDomain}`,
    );
  }
  if (wanted.datacenter !== datacenter) {
    throw invalid(
      `SPIFFE ID in CSR from a different datacenter: ${wanted.datacenter}, we are ${datacenter}`,
    );
  }
  const { namespace, partition } = wanted;
  if (namespace !== "default" || partition !== "default") {
    throw invalid(
      "Non default partition or namespace is supported in Enterprise only." +
        `Provided namespace is ${namespace} and partition is ${partition}`,
    );
  }
  const [resource, segment] = wanted.right;
  authorizer.require(resource, "write", segment);
  if (publicKey.asymmetricKeyType === "ed25519") throw unsigned();
  const { name: subject, key, chainPem } = ca.signer;
  const nowMs = clock.now();
  const options = { trustDomain: ca.trustDomain, nowMs };
  const authority = new Authority({
    options,
    key,
    subject,
    rootDer: new Uint8Array(),
    chain: chainPem === "" ? [] : parsePem(chainPem, { what: "chain" }).map(({ der }) => der),
  });
  const serial = serialBytes(ca.nextSerial());
  return authority.certify(publicKey, {
    nowMs,
    ttlMs: LEAF_TTL_MS,
    overrides: { altNames, serial },
  }).certPem;
}

/** Lets so many requests through in a second, without bursts; refuses those that would wait for over half a second. */
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
  /** Resource and segment on which the sender needs the write right. */
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

/** Consul's answer to every other fault. */
function unsigned(): GrpcRefusal {
  return new GrpcRefusal(GRPC_STATUS.internal, "failed to sign leaf certificate");
}
