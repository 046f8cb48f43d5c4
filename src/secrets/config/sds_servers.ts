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
import { follow, isRecord, type Reader, reader, type Report } from "../envoy/message.ts";
import type { SdsNode, SdsServer } from "../plan.ts";
import { type Path, type Problem, problemOf } from "../values.ts";
import { nativeServer } from "./native_server.ts";
import { isCluster, sdsCluster } from "./sds_cluster.ts";

export interface SdsServersContext {
  /** Where the value is, for problems. */
  readonly path: Path;
  /** Who we are, unless a server's configuration says otherwise. */
  readonly node: SdsNode;
}

export type ParsedSdsServers =
  | {
    readonly kind: "valid";
    readonly servers: Readonly<Record<string, SdsServer>>;
    readonly warnings: readonly string[];
  }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

/** More than anyone has; each may hold a connection open. */
const SERVERS_LIMIT = 100;

/** Never throws; everything wrong is reported at once. */
export function parseSdsServers(value: unknown, context: SdsServersContext): ParsedSdsServers {
  const warnings: string[] = [];
  const reading = { ...context, warn: (message: string) => void warnings.push(message) };
  const result = v.safeParse(servers(reading), value, { abortPipeEarly: true });
  if (result.success) return { kind: "valid", servers: result.output, warnings };
  const problems = result.issues.map(problemOf)
    .map(({ path, message }) => ({ path: [...context.path, ...path], message }));
  return { kind: "invalid", problems };
}

/** What the configuration of a server is read against. */
export interface ServerReading extends SdsServersContext {
  warn(message: string): void;
}

function servers(reading: ServerReading): Reader<Readonly<Record<string, SdsServer>>> {
  return reader((value, report) => {
    const entries = entriesOf(value, report);
    if (!entries) return undefined;
    if (entries.length > SERVERS_LIMIT) {
      return report([], `has more than ${SERVERS_LIMIT} entries`);
    }
    const found = new Map<string, SdsServer>();
    for (const { path, name, entry } of entries) {
      const schema = isCluster(entry) ? sdsCluster(reading) : nativeServer(reading);
      const server = follow(schema, entry, { path, report });
      if (!server) continue;
      if (name !== undefined && server.name !== "" && server.name !== name) {
        report([...path, "name"], `is not "${name}", under which it is listed`);
      }
      const key = name ?? server.name;
      if (key === "") report([...path, "name"], "is missing");
      else if (found.has(key)) report([...path, "name"], `"${key}" is used by an earlier server`);
      for (const field of ["id", "cluster"] as const) {
        if (server.node[field] === "") {
          report([...path, "node", field], "is missing; SDS servers are told who asks");
        }
      }
      found.set(key, { ...server, name: key });
    }
    return Object.fromEntries(found);
  });
}

interface Entry {
  readonly path: Path;
  /** `undefined`: it says its name itself. */
  readonly name: string | undefined;
  readonly entry: unknown;
}

function entriesOf(value: unknown, report: Report): readonly Entry[] | undefined {
  if (Array.isArray(value)) {
    return value.map((entry, index) => ({ path: [index], name: undefined, entry }));
  }
  if (isRecord(value)) {
    return Object.entries(value).map(([name, entry]) => ({ path: [name], name, entry }));
  }
  return report([], "must be an object with servers by name, or a list");
}
