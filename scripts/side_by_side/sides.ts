/**
 * The two sidecars that are compared beside the same servers: Postern alone, and consul-dataplane with
 * Envoy.
 *
 * @module
 */

import { readdir, readFile } from "node:fs/promises";
import { connectedTo } from "../../test/kit/process/connections.ts";
import { type Cluster, SERVER_NAME } from "../../test/kit/mesh/cluster.ts";
import { freePorts } from "../../test/kit/process/ports.ts";
import { posternCommand } from "../../test/kit/process/postern.ts";
import { Process } from "../../test/kit/process/process.ts";
import { isExecutable } from "../cache.ts";
import { peer } from "../peers.ts";

export interface SidecarOptions {
  readonly serviceId: string;
  readonly token?: string;
  /** Instead of a token. */
  readonly login?: { readonly authMethod: string; readonly bearerFile: string };
}

export interface Side {
  /** The name in columns and of services: `postern`. */
  readonly name: string;
  start(cluster: Cluster, options: SidecarOptions): Promise<Process>;
}

export const POSTERN: Side = {
  name: "postern",
  start(cluster, { serviceId, token, login }) {
    const [command = "", ...words] = posternCommand("bun");
    return Promise.resolve(
      new Process(command, [
        ...words,
        ...["proxy", "-proxy-id", `${serviceId}-sidecar-proxy`, "-admin-bind", "127.0.0.1:0"],
        ...[...cluster.serverFlags(), "-node", cluster.nodeOf(serviceId)],
        ...login
          ? ["-login-auth-method", login.authMethod, "-login-bearer-token-file", login.bearerFile]
          : [],
      ], {
        name: `postern ${serviceId}`,
        env: {
          CONSUL_HTTP_ADDR: undefined,
          ...(token ? { CONSUL_HTTP_TOKEN: token } : {}),
        },
      }),
    );
  },
};

/** Needs the program in `$CONSUL_DATAPLANE_BIN`: it is not installed as the other peers are. */
export const DATAPLANE: Side = {
  name: "dataplane",
  async start(cluster, { serviceId, token, login }) {
    const [admin, lifecycle] = await freePorts("127.0.0.1", 2);
    const addresses = cluster.members.map(({ host }) => host).join(" ");
    return new Process(dataplaneProgram(), [
      ...["-addresses", `exec=echo ${addresses}`, "-grpc-port", `${cluster.grpcPort}`],
      ...["-ca-certs", cluster.tls.caFile, "-tls-server-name", SERVER_NAME],
      ...["-proxy-id", `${serviceId}-sidecar-proxy`, "-proxy-node-name", cluster.nodeOf(serviceId)],
      ...["-envoy-executable-path", peer("envoy"), "-envoy-concurrency", "1"],
      ...["-envoy-admin-bind-port", `${admin}`, "-graceful-port", `${lifecycle}`],
      ...login
        ? [
          ...["-credential-type", "login", "-login-auth-method", login.authMethod],
          ...["-login-bearer-token-path", login.bearerFile],
        ]
        : [],
    ], {
      name: `consul-dataplane ${serviceId}`,
      // Not on a command line that every user can read.
      env: token ? { DP_CREDENTIAL_TYPE: "static", DP_CREDENTIAL_STATIC_TOKEN: token } : {},
    });
  },
};

/** Fails, saying what is missing. */
export function dataplaneProgram(): string {
  const path = process.env.CONSUL_DATAPLANE_BIN ?? "";
  if (isExecutable(path)) return path;
  throw new Error("Cannot compare: CONSUL_DATAPLANE_BIN names no program consul-dataplane");
}

/** The process and those that any of its threads started. */
export async function familyOf(pid: number): Promise<number[]> {
  const family = [pid];
  for (const thread of await readdir(`/proc/${pid}/task`)) {
    const children = await readFile(`/proc/${pid}/task/${thread}/children`, "utf8");
    family.push(...children.trim().split(" ").filter((text) => text !== "").map(Number));
  }
  return family;
}

/** Memory that would be free without them, each shared page counted in part, and all that is resident. */
export async function memoryOf(
  pids: readonly number[],
): Promise<{ readonly pssBytes: number; readonly rssBytes: number }> {
  let [pssBytes, rssBytes] = [0, 0];
  for (const pid of pids) {
    const text = await readFile(`/proc/${pid}/smaps_rollup`, "utf8");
    const of = (name: string) =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]) * 1024;
    pssBytes += of("Pss");
    rssBytes += of("Rss");
  }
  return { pssBytes, rssBytes };
}

/** Connections of all of `pids` to the servers. */
export async function serverConnections(
  cluster: Cluster,
  pids: readonly number[],
): Promise<number> {
  const hosts = new Set(cluster.members.map(({ host }) => host));
  const places = (await Promise.all(pids.map(connectedTo))).flat();
  return places.filter(({ host }) => hosts.has(host)).length;
}
