/**
 * One SDS server in our own form, and the defaults of every SDS server.
 *
 * @module
 */

import * as v from "valibot";
import type { Address } from "../../base/mod.ts";
import {
  address,
  checked,
  defined,
  duration,
  flag,
  isRecord,
  list,
  type OutputOf,
  reader,
  readValue,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { NO_RULES } from "../../identity/mod.ts";
import type { XdsNode } from "../../xds/mod.ts";
import { fieldsOf } from "../envoy/message.ts";
import type { SdsServer } from "../model/plan.ts";
import { fileCertificate, fileSource, hasPair, PAIR_ENTRIES } from "./file_secrets.ts";
import type { ServerReading } from "./sources.ts";

const TLS_ENTRIES = {
  serverName: v.exactOptional(text()),
  ca: v.exactOptional(text()),
  systemRoots: v.optional(flag(), false),
  ...PAIR_ENTRIES,
};

/** A `Struct` may be any JSON object. */
const STRUCT = v.custom<Readonly<Record<string, unknown>>>(isRecord, "must be an object");

const NODE = fieldsOf({
  id: v.exactOptional(text()),
  cluster: v.exactOptional(text()),
  metadata: v.exactOptional(STRUCT),
  locality: v.exactOptional(checked(
    fieldsOf({
      region: v.exactOptional(text()),
      zone: v.exactOptional(text()),
      subZone: v.exactOptional(text()),
    }),
    (found) => ({ region: "", zone: "", subZone: "", ...found }),
  )),
});

const FIELDS = fieldsOf({
  name: v.exactOptional(text()),
  address: v.exactOptional(addresses()),
  addresses: v.exactOptional(addresses()),
  tls: v.exactOptional(fieldsOf(TLS_ENTRIES)),
  plaintext: v.optional(flag(), false),
  metadata: v.optional(metadata(), {}),
  keepAlive: v.exactOptional(duration(1_000)),
  keepAliveTimeout: v.exactOptional(duration(100)),
  backoff: v.exactOptional(fieldsOf({
    base: v.exactOptional(duration(1)),
    max: v.exactOptional(duration(1)),
  })),
  node: v.optional(NODE, {}),
});

export function nativeServer(reading: ServerReading): SchemaOf<SdsServer> {
  return checked(FIELDS, (found, report): SdsServer | undefined => {
    const { name = "", plaintext, metadata, backoff } = found;
    if (found.address && found.addresses) report(["addresses"], "cannot be beside address");
    const addresses = found.address ?? found.addresses;
    if (!addresses) return report(["address"], "is missing");
    const at: Report = (path, message) => report(["tls", ...path], message);
    const tls = found.tls ? tlsOf(found.tls, addresses, at) : null;
    if (tls && plaintext) report(["plaintext"], "cannot be true beside tls");
    if (!found.tls && !addresses.every(isLoopback) && !plaintext) {
      report(
        ["tls"],
        "is missing: secrets would cross the network in clear; if that is meant, say plaintext: true",
      );
    }
    const backoffBaseMs = backoff?.base ?? 500;
    const backoffMaxMs = backoff?.max ?? Math.max(30_000, backoffBaseMs);
    if (backoffMaxMs < backoffBaseMs) report(["backoff", "max"], "is below base");
    return tls === undefined ? undefined : sdsServer({
      name,
      addresses,
      tls,
      metadata,
      backoffBaseMs,
      backoffMaxMs,
      ...defined({ keepAliveMs: found.keepAlive, keepAliveTimeoutMs: found.keepAliveTimeout }),
    }, { ...reading.node, ...found.node });
  });
}

/** `undefined`: a problem was reported. */
function tlsOf(
  found: OutputOf<typeof TLS_ENTRIES>,
  addresses: readonly Address[],
  report: Report,
): SdsServer["tls"] | undefined {
  const { ca, systemRoots, serverName = hostOf(addresses), ...pair } = found;
  if (serverName === undefined) {
    return report(["serverName"], "is missing, and a unix socket's path names nobody");
  }
  if (ca === undefined && !systemRoots) {
    return report(["ca"], "is missing; for the system's roots, say systemRoots: true");
  }
  const trustedCa = fileSource(ca);
  const certificate = hasPair(pair) ? fileCertificate(pair, report) : undefined;
  return {
    serverName,
    validation: {
      type: "validation",
      ...defined({ trustedCa }),
      systemRoots,
      rules: NO_RULES,
    },
    ...defined({ certificate }),
  };
}

/** One address, or a list of them. */
function addresses(): SchemaOf<readonly Address[]> {
  const one = address({ unix: true });
  const many = checked(list(one, 100), (found, report) => {
    return found.length > 0 ? found : report([], "must not be empty");
  });
  const single = checked(one, (found) => [found]);
  return v.lazy((value) => Array.isArray(value) ? many : single);
}

function metadata(): SchemaOf<Readonly<Record<string, string>>> {
  const name = metadataName();
  return reader((value, report) => {
    if (!isRecord(value)) return report([], "must be an object");
    const found = new Map<string, string>();
    for (const [key, entry] of Object.entries(value)) {
      const lower = readValue(name, key, (_, message) => report([key], message));
      if (lower === undefined) continue;
      if (typeof entry !== "string" || !/^[\x20-\x7e]{1,8192}$/.test(entry)) {
        report([key], "must be a text of plain characters");
      } else if (found.has(lower)) report([key], "is given twice");
      else found.set(lower, entry);
    }
    return Object.fromEntries(found);
  });
}

/** A header name of HTTP/2. gRPC's own names are reserved, and `-bin` marks base64. */
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

/** A server with defaults for absent fields. */
export function sdsServer(
  given: Pick<SdsServer, "name" | "addresses"> & Partial<SdsServer>,
  node: XdsNode,
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

/** The host, if all addresses have the same one. */
export function hostOf(addresses: readonly Address[]): string | undefined {
  const hosts = new Set(addresses.map((address) => address.kind === "tcp" ? address.host : ""));
  const [host] = hosts;
  return hosts.size === 1 && host ? host : undefined;
}

/** Whether bytes to an address stay on this machine, so that keys may be sent in clear. */
export function isLoopback(address: Address): boolean {
  if (address.kind === "unix") return true;
  const host = address.host.toLowerCase();
  return host === "localhost" || host === "::1" || /^127(?:\.\d{1,3}){3}$/.test(host);
}
