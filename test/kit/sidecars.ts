/**
 * Sidecars of a registered service that are no Postern: the two proxies that it must work with.
 *
 * @module
 */

import { peer } from "../../scripts/peers.ts";
import type { Consul } from "./consul.ts";
import type { RunOptions } from "./mesh.ts";
import { freePort } from "./ports.ts";
import { Process } from "./process.ts";

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
export async function envoySidecar(
  agent: Consul,
  serviceId: string,
  options: RunOptions,
): Promise<Process> {
  const adminPort = await freePort(agent.host);
  const child = new Process(peer("consul"), [
    ...["connect", "envoy", "-sidecar-for", serviceId],
    ...["-http-addr", agent.address, "-grpc-addr", `http://${agent.grpcAddress}`],
    ...["-envoy-binary", peer("envoy"), "-ignore-envoy-compatibility"],
    ...["-admin-bind", `${agent.host}:${adminPort}`],
    ...(options.token ? ["-token", options.token] : []),
    ...["--", "--concurrency", "1", "-l", "info"],
    // What a listener had before a change is not kept for minutes by connections.
    ...["--drain-time-s", "1", "--drain-strategy", "immediate", "--disable-hot-restart"],
  ], { name: `envoy ${serviceId}` });
  await child.waitFor(/starting workers/, { timeoutMs: 60_000 });
  return child;
}
