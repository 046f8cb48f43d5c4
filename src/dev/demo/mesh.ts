/**
 * The mesh of `postern dev`: `web`, which calls `db`, on an agent in memory. Processes and what is
 * printed are left to the command.
 *
 * @module
 */

import type { DevAgent } from "../agent.ts";
import type { Status } from "../catalog/records.ts";

export interface DemoMeshOptions {
  readonly web: DemoService;
  readonly db: DemoService;
  /** Where web reaches db through its sidecar. */
  readonly upstreamPort: number;
  /** Address of all of it; 127.0.0.1 unless given. */
  readonly host?: string;
}

export interface DemoService {
  /** Where the application listens. */
  readonly port: number;
  /** Where its sidecar listens. */
  readonly sidecarPort: number;
  /** Absent: `web-1`, `db-1`. */
  readonly id?: string;
}

/** What a status line shows. */
export interface DemoMeshState {
  readonly intention: "allow" | "deny";
  /** By id, sidecars included. */
  readonly services: ReadonlyMap<string, Status>;
  readonly trustDomain: string;
}

/** Registers both services with their sidecars and allows web to call db. */
export function registerDemoMesh(agent: DevAgent, options: DemoMeshOptions): void {
  addInstance(agent, "db", options.db, { host: options.host });
  addInstance(agent, "web", options.web, {
    host: options.host,
    upstreams: [{ DestinationName: "db", LocalBindPort: options.upstreamPort }],
  });
  agent.setIntention("web", "db", "allow");
}

/** One more instance, as for a second db that takes over. */
export function addInstance(
  agent: DevAgent,
  name: string,
  service: DemoService,
  more: {
    readonly host?: string | undefined;
    readonly upstreams?: readonly Readonly<Record<string, unknown>>[];
  } = {},
): string {
  const host = more.host ?? "127.0.0.1";
  const id = service.id ?? `${name}-1`;
  agent.registerService({
    Name: name,
    ID: id,
    Address: host,
    Port: service.port,
    Connect: {
      SidecarService: {
        Port: service.sidecarPort,
        // Checked every second, so that a killed instance is seen while one looks on.
        Checks: [{
          CheckID: `${id}-sidecar`,
          Name: "Connect Sidecar Listening",
          TCP: `${host}:${service.sidecarPort}`,
          Interval: "1s",
        }, {
          CheckID: `${id}-app`,
          Name: `Application ${id}`,
          TCP: `${host}:${service.port}`,
          Interval: "1s",
        }],
        Proxy: { LocalServiceAddress: host, Upstreams: more.upstreams ?? [] },
      },
    },
  });
  return id;
}

/** Turns the intention over; returns what it is now. */
export function flipIntention(
  agent: DevAgent,
  source: string,
  destination: string,
): "allow" | "deny" {
  const next = agent.intention(source, destination) === "allow" ? "deny" : "allow";
  agent.setIntention(source, destination, next);
  return next;
}

export function demoMeshState(agent: DevAgent): DemoMeshState {
  return {
    intention: agent.intention("web", "db"),
    services: agent.statuses(),
    trustDomain: agent.trustDomain,
  };
}
