/**
 * SDS servers by name, in our own form or as Envoy's static clusters.
 *
 * @example
 * { "sds_cluster": { "address": "unix:///run/sds.sock" } }
 * { "vault": { "address": "10.0.0.5:8234", "tls": { "serverName": "sds.example", "ca": "ca.pem" } } }
 * [{ "name": "sds_cluster", "load_assignment": { "endpoints": [...] } }]
 *
 * @module
 */

import * as v from "valibot";
import {
  address,
  checked,
  type ConfigPath,
  defined,
  duration,
  flag,
  isRecord,
  list,
  type OutputOf,
  parsed,
  type Problem,
  reader,
  readValue,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import type { XdsNode } from "../../xds/mod.ts";
import type { SdsServer } from "../model/plan.ts";
import { isCluster, sdsCluster } from "./sds_cluster.ts";
import { hostOf, isLoopback, metadataName, sdsServer, type ServerReading } from "./sources.ts";
import type { Address } from "../../base/mod.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { fieldsOf } from "../envoy/message.ts";
import { fileCertificate, fileSource, hasPair, PAIR_ENTRIES } from "./file_secrets.ts";

export type ParsedSdsServers =
  | {
    readonly kind: "valid";
    readonly servers: Readonly<Record<string, SdsServer>>;
    readonly warnings: readonly string[];
  }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

/** Each server may hold a connection open. */
const SERVERS_LIMIT = 100;

/**
 * Never throws; all problems are reported at once, below `path`. `node`: ours, unless a server's
 * configuration has its own.
 */
export function parseSdsServers(
  value: unknown,
  { path, node }: { readonly path: ConfigPath; readonly node: XdsNode },
): ParsedSdsServers {
  const warnings: string[] = [];
  const schema = servers({ node, warn: (message) => void warnings.push(message) });
  const result = parsed(schema, value, path);
  return result.kind === "valid" ? { kind: "valid", servers: result.output, warnings } : result;
}

function servers(reading: ServerReading): SchemaOf<Readonly<Record<string, SdsServer>>> {
  const [cluster, native] = [sdsCluster(reading), nativeServer(reading)];
  return reader((value, report) => {
    if (!Array.isArray(value) && !isRecord(value)) {
      return report([], "must be an object with servers by name, or a list");
    }
    const entries = Object.entries(value);
    if (entries.length > SERVERS_LIMIT) return report([], `has more than ${SERVERS_LIMIT} entries`);
    const found = new Map<string, SdsServer>();
    for (const [listed, entry] of entries) {
      // An entry of a list has its name itself.
      const name = Array.isArray(value) ? undefined : listed;
      const at: Report = (path, message) => report([name ?? Number(listed), ...path], message);
      const server = readValue(isCluster(entry) ? cluster : native, entry, at);
      if (!server) continue;
      if (name !== undefined && server.name !== "" && server.name !== name) {
        at(["name"], `is not "${name}", under which it is listed`);
      }
      const key = name ?? server.name;
      if (key === "") at(["name"], "is missing");
      else if (found.has(key)) at(["name"], `"${key}" is used by an earlier server`);
      for (const field of ["id", "cluster"] as const) {
        if (server.node[field] === "") {
          at(["node", field], "is missing; SDS servers identify the proxy by it");
        }
      }
      found.set(key, { ...server, name: key });
    }
    return Object.fromEntries(found);
  });
}

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

function nativeServer(reading: ServerReading): SchemaOf<SdsServer> {
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
    validation: { type: "validation", ...defined({ trustedCa }), systemRoots, rules: NO_RULES },
    ...defined({ certificate }),
  };
}

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
