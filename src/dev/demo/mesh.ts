/**
 * The mesh of `postern dev`: `web`, which calls `api` over HTTP, on an agent in memory. Processes and what
 * is printed are left to the command.
 *
 * @module
 */

import type { DevWorld } from "../dev_world.ts";
import type { Status } from "../catalog/records.ts";

export interface DemoMeshOptions {
  readonly web: DemoService;
  readonly api: DemoService;
  /** Where web reaches api through its sidecar. */
  readonly upstreamPort: number;
  /** Address of all of it; 127.0.0.1 unless given. */
  readonly host?: string;
}

export interface DemoService {
  /** Where the application listens. */
  readonly port: number;
  /** Where its sidecar listens. */
  readonly sidecarPort: number;
  /** Absent: `web-1`, `api-1`. */
  readonly id?: string;
  /** What its sidecar's registration says under `Config`; absent: nothing. */
  readonly proxyConfig?: Readonly<Record<string, unknown>>;
}

/** What a status line shows. */
export interface DemoMeshState {
  readonly intention: ReturnType<DevWorld["intention"]>;
  /** By id, sidecars included. */
  readonly services: ReadonlyMap<string, Status>;
}

/** What an intention can say about web, as `PUT /v1/connect/intentions/exact` takes it. */
export const DEMO_INTENTIONS = {
  allow: { Action: "allow" },
  permissions: {
    Permissions: [
      { Action: "allow", HTTP: { PathPrefix: "/", Methods: ["GET"] } },
      { Action: "deny", HTTP: { PathPrefix: "/" } },
    ],
  },
  deny: { Action: "deny" },
} as const;

/** Registers both services with their sidecars and allows web to call api. */
export function registerDemoMesh(mesh: DevWorld, options: DemoMeshOptions): void {
  for (const name of ["web", "api"]) {
    mesh.writeEntry({ Kind: "service-defaults", Name: name, Protocol: "http" });
  }
  addInstance(mesh, "api", options.api, { host: options.host });
  addInstance(mesh, "web", options.web, {
    host: options.host,
    upstreams: [{ DestinationName: "api", LocalBindPort: options.upstreamPort }],
  });
  mesh.setIntention("web", "api", DEMO_INTENTIONS.allow);
}

/** One more instance, as for a second api that takes over. */
export function addInstance(
  mesh: DevWorld,
  name: string,
  service: DemoService,
  more: {
    readonly host?: string | undefined;
    readonly upstreams?: readonly Readonly<Record<string, unknown>>[];
  } = {},
): string {
  const host = more.host ?? "127.0.0.1";
  const id = service.id ?? `${name}-1`;
  mesh.registerService({
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
        Proxy: {
          LocalServiceAddress: host,
          Upstreams: more.upstreams ?? [],
          ...(service.proxyConfig && { Config: service.proxyConfig }),
        },
      },
    },
  });
  return id;
}

const NEXT = { allow: "permissions", permissions: "deny", deny: "allow" } as const;

/** To the next of {@link DEMO_INTENTIONS}; returns which one holds now. */
export function flipIntention(mesh: DevWorld): DemoMeshState["intention"] {
  const next = NEXT[mesh.intention("web", "api")];
  mesh.setIntention("web", "api", DEMO_INTENTIONS[next]);
  return next;
}

export function demoMeshState(mesh: DevWorld): DemoMeshState {
  return { intention: mesh.intention("web", "api"), services: mesh.statuses() };
}
