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

import {
  type ConfigPath,
  isRecord,
  parsed,
  type Problem,
  reader,
  readValue,
  type Report,
  type SchemaOf,
} from "../../base/schema.ts";
import type { XdsNode } from "../../xds/mod.ts";
import type { SdsServer } from "../model/plan.ts";
import { nativeServer } from "./native_server.ts";
import { isCluster, sdsCluster } from "./sds_cluster.ts";
import type { ServerReading } from "./sources.ts";

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
    const entries = entriesOf(value, report);
    if (!entries) return undefined;
    if (entries.length > SERVERS_LIMIT) {
      return report([], `has more than ${SERVERS_LIMIT} entries`);
    }
    const found = new Map<string, SdsServer>();
    for (const { key: listed, name, entry } of entries) {
      const at: Report = (path, message) => report([listed, ...path], message);
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

interface Entry {
  readonly key: string | number;
  /** `undefined`: the entry has its name itself. */
  readonly name?: string;
  readonly entry: unknown;
}

function entriesOf(value: unknown, report: Report): readonly Entry[] | undefined {
  if (Array.isArray(value)) return value.map((entry, key) => ({ key, entry }));
  if (isRecord(value)) {
    return Object.entries(value).map(([name, entry]) => ({ key: name, name, entry }));
  }
  return report([], "must be an object with servers by name, or a list");
}
