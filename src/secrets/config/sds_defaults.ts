/**
 * What every SDS server has unless its configuration says otherwise.
 *
 * @module
 */

import type { Address } from "../../base/mod.ts";
import { reader, type SchemaOf } from "../../base/schema.ts";
import type { SdsNode, SdsServer } from "../plan.ts";

export function sdsServer(
  given: Pick<SdsServer, "name" | "addresses"> & Partial<SdsServer>,
  node: SdsNode,
): SdsServer {
  return {
    tls: null,
    metadata: {},
    keepAliveMs: 30_000,
    keepAliveTimeoutMs: 5_000,
    backoffBaseMs: 500,
    backoffMaxMs: 30_000,
    node,
    ...given,
  };
}

/** The one host that all of them have. */
export function hostOf(addresses: readonly Address[]): string | undefined {
  const hosts = new Set(addresses.map((address) => address.kind === "tcp" ? address.host : ""));
  const [host] = hosts;
  return hosts.size === 1 && host ? host : undefined;
}

/** What is sent there never leaves this machine: keys may cross it in clear. */
export function isLoopback(address: Address): boolean {
  if (address.kind === "unix") return true;
  const host = address.host.toLowerCase();
  return host === "localhost" || host === "::1" || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** A header's name as HTTP/2 takes it; gRPC's own names are not for people, and `-bin` means base64. */
export function metadataName(): SchemaOf<string> {
  return reader((value, report) => {
    const lower = typeof value === "string" && value.length <= 255 ? value.toLowerCase() : "";
    if (!/^[a-z0-9_.-]+$/.test(lower)) return report([], "must be a header's name");
    if (/^grpc-|-bin$|^(?:te|host|content-type|user-agent|connection)$/.test(lower)) {
      return report([], "is a header that cannot be set");
    }
    return lower;
  });
}
