/**
 * Sidecars of a registered service: Postern, and the two proxies that it must work with.
 *
 * @module
 */

import { peer } from "../../scripts/peers.ts";
import type { Consul } from "./consul.ts";
import { type Postern, startPostern } from "./postern.ts";
import { freePort } from "./ports.ts";
import { Process } from "./process.ts";

/** How a story starts a sidecar: Postern, or a peer that it must work with. */
export type StartSidecar = (agent: Consul, options: SidecarOptions) => Promise<AsyncDisposable>;

export interface SidecarOptions {
  readonly serviceId: string;
  readonly token?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Words in front of the command, see {@link startPostern}. */
  readonly under?: readonly string[];
}

export async function posternSidecar(agent: Consul, options: SidecarOptions): Promise<Postern> {
  const postern = startPostern(
    [
      ...["proxy", "-sidecar-for", options.serviceId, "-admin-bind", "127.0.0.1:0"],
      ...(options.args ?? []),
    ],
    {
      env: {
        CONSUL_HTTP_ADDR: agent.address,
        ...(options.token ? { CONSUL_HTTP_TOKEN: options.token } : {}),
        ...options.env,
      },
      name: `postern ${options.serviceId}`,
      ...(options.under ? { under: options.under } : {}),
    },
  );
  try {
    await postern.waitReady();
  } catch (error) {
    postern.kill("SIGKILL");
    throw error;
  }
  return postern;
}

/** The proxy that comes with Consul. */
export async function builtInSidecar(agent: Consul, options: SidecarOptions): Promise<Process> {
  const child = new Process(
    peer("consul"),
    ["connect", "proxy", "-sidecar-for", options.serviceId, ...(options.args ?? [])],
    {
      env: {
        CONSUL_HTTP_ADDR: agent.address,
        CONSUL_HTTP_TOKEN: options.token ?? agent.managementToken,
      },
      name: `consul connect proxy ${options.serviceId}`,
    },
  );
  await child.waitFor(/Starting listener: listener="public listener"/, { timeoutMs: 60_000 });
  return child;
}

/** Envoy, configured by Consul over xDS. */
export async function envoySidecar(agent: Consul, options: SidecarOptions): Promise<Process> {
  const adminPort = await freePort(agent.host);
  const child = new Process(peer("consul"), [
    ...["connect", "envoy", "-sidecar-for", options.serviceId],
    ...["-http-addr", agent.address, "-grpc-addr", `http://${agent.grpcAddress}`],
    ...["-envoy-binary", peer("envoy"), "-ignore-envoy-compatibility"],
    ...["-admin-bind", `${agent.host}:${adminPort}`],
    ...(options.token ? ["-token", options.token] : []),
    // Consul turns hot restarts off: any two of them run side by side.
    ...["--", "--concurrency", "1", "-l", "info"],
  ], { name: `envoy ${options.serviceId}` });
  await child.waitFor(/starting workers/, { timeoutMs: 60_000 });
  return child;
}
