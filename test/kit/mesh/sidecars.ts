/**
 * Sidecars of a registered service that are no Postern: the two proxies that it must work with.
 *
 * @module
 */

import { peer } from "../../../scripts/peers.ts";
import type { Cluster } from "./cluster.ts";
import type { Consul } from "./consul.ts";
import type { Mesh, RunOptions } from "./mesh.ts";
import { freePort } from "../process/ports.ts";
import { Process } from "../process/process.ts";

/** The proxy that comes with Consul. */
export async function builtInSidecar(
  agent: Consul,
  serviceId: string,
  options: RunOptions,
): Promise<Process> {
  const child = new Process(
    peer("consul"),
    ["connect", "proxy", "-sidecar-for", serviceId, ...(options.args ?? [])],
    {
      env: {
        CONSUL_HTTP_ADDR: agent.address,
        CONSUL_HTTP_TOKEN: options.token ?? agent.managementToken,
      },
      name: `consul connect proxy ${serviceId}`,
    },
  );
  await child.waitFor(/Starting listener: listener="public listener"/, { timeoutMs: 60_000 });
  return child;
}

/** Envoy, configured by Consul over xDS. */
export function envoySidecar(
  agent: Consul,
  serviceId: string,
  /** `adminPort`: one of its own if absent. */
  options: RunOptions & { readonly adminPort?: number },
): Promise<Process> {
  return runEnvoy(agent, serviceId, [
    ...["-sidecar-for", serviceId],
    ...["-http-addr", agent.address, "-grpc-addr", `http://${agent.grpcAddress}`],
    ...(options.token ? ["-token", options.token] : []),
  ], options.adminPort);
}

/** The same for an entry of the catalog, by a server. */
export function envoyBesideServers(
  cluster: Cluster,
  serviceId: string,
  options: RunOptions,
): Promise<Process> {
  const [server] = cluster.members;
  return runEnvoy(cluster, serviceId, [
    ...["-proxy-id", `${serviceId}-sidecar-proxy`, "-node-name", cluster.nodeOf(serviceId)],
    ...["-http-addr", cluster.address, "-grpc-addr", `https://${server?.host}:${cluster.grpcPort}`],
    ...["-grpc-ca-file", cluster.tls.caFile],
    ...(options.token ? ["-token", options.token] : []),
  ]);
}

/** The same for an entry of the catalog, by a server over plain text. */
export function envoyOfNode(
  server: Consul,
  { proxyId, node }: { readonly proxyId: string; readonly node: string },
  options: RunOptions,
): Promise<Process> {
  return runEnvoy(server, proxyId, [
    ...["-proxy-id", proxyId, "-node-name", node],
    ...["-http-addr", server.address, "-grpc-addr", `http://${server.grpcAddress}`],
    ...(options.token ? ["-token", options.token] : []),
  ]);
}

/** Envoy as a gateway of `kind` that is registered with the agent. */
export function envoyGateway(
  agent: Consul,
  { kind, proxyId, token }: {
    readonly kind: "terminating" | "ingress";
    readonly proxyId: string;
    readonly token?: string;
  },
): Promise<Process> {
  return runEnvoy(agent, proxyId, [
    ...["-gateway", kind, "-proxy-id", proxyId],
    ...["-http-addr", agent.address, "-grpc-addr", `http://${agent.grpcAddress}`],
    ...(token ? ["-token", token] : []),
  ]);
}

async function runEnvoy(
  mesh: Mesh,
  serviceId: string,
  options: readonly string[],
  port?: number,
): Promise<Process> {
  const adminPort = port ?? await freePort(mesh.host);
  const child = new Process(peer("consul"), [
    ...["connect", "envoy", ...options],
    ...["-envoy-binary", peer("envoy"), "-ignore-envoy-compatibility"],
    ...["-admin-bind", `${mesh.host}:${adminPort}`],
    ...["--", "--concurrency", "1", "-l", "info"],
    // Connections do not keep a listener's old configuration for minutes.
    ...["--drain-time-s", "1", "--drain-strategy", "immediate", "--disable-hot-restart"],
  ], { name: `envoy ${serviceId}` });
  await child.waitFor(/starting workers/, { timeoutMs: 60_000 });
  return child;
}
