/** The mesh of `postern dev -demo`: `web`, which calls `api` over HTTP. @module */

import type { Status } from "../catalog/records.ts";
import { decide, exactIntention, putIntention } from "../entries/intentions.ts";
import type { JsonObject } from "../json.ts";
import { decodeAs } from "../shapes.ts";
import type { World } from "../world.ts";

interface DemoMeshOptions {
  readonly web: DemoService;
  readonly api: DemoService;
  /** The port at which web reaches api through its sidecar. */
  readonly upstreamPort: number;
}

interface DemoService {
  readonly port: number;
  readonly sidecarPort: number;
  /** `Config` of its sidecar's registration; absent: none. */
  readonly proxyConfig?: Readonly<Record<string, unknown>>;
}

interface DemoMeshState {
  readonly intention: keyof typeof DEMO_INTENTIONS;
  /** By id, sidecars included. */
  readonly services: ReadonlyMap<string, Status>;
}

/** Intentions for web, as bodies of `PUT /v1/connect/intentions/exact`. */
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

const HOST = "127.0.0.1";

/** Registers both services with their sidecars and allows web to call api. */
export function registerDemoMesh(world: World, { api, web, upstreamPort }: DemoMeshOptions): void {
  for (const Name of ["web", "api"]) {
    world.config.put({ Kind: "service-defaults", Name, Protocol: "http" });
  }
  registerDemoService(world, "api", api, []);
  const upstream = { DestinationName: "api", LocalBindPort: upstreamPort };
  registerDemoService(world, "web", web, [upstream]);
  setDemoIntention(world, "allow");
}

function registerDemoService(
  { services }: World,
  name: string,
  { port, sidecarPort, proxyConfig = {} }: DemoService,
  upstreams: readonly JsonObject[],
): void {
  // Checked every second, so that a killed sidecar soon becomes critical.
  const check = (title: string, port: number) => ({
    CheckID: `${name}-1 ${title}`,
    Name: title,
    TCP: `${HOST}:${port}`,
    Interval: "1s",
  });
  const body = {
    Name: name,
    ID: `${name}-1`,
    Address: HOST,
    Port: port,
    Connect: {
      SidecarService: {
        Port: sidecarPort,
        Checks: [check("sidecar", sidecarPort), check("application", port)],
        Proxy: {
          LocalServiceAddress: HOST,
          Upstreams: upstreams,
          Config: proxyConfig as JsonObject,
        },
      },
    },
  };
  services.register(decodeAs(body, "registration"));
}

const NEXT = { allow: "permissions", permissions: "deny", deny: "allow" } as const;

/** Sets the next of {@link DEMO_INTENTIONS}. */
export function flipIntention(world: World): void {
  setDemoIntention(world, NEXT[intentionOf(world)]);
}

export function demoMeshState(world: World): DemoMeshState {
  const { services } = world;
  const statuses = services.all().map(({ id }) => [id, services.statusOf(id)] as const);
  return { intention: intentionOf(world), services: new Map(statuses) };
}

function setDemoIntention({ config }: World, intention: DemoMeshState["intention"]): void {
  putIntention(config, "api", { Name: "web", ...DEMO_INTENTIONS[intention] });
}

function intentionOf({ config, intentionPolicy, acl }: World): DemoMeshState["intention"] {
  const exact = exactIntention(config, "web", "api");
  if (exact?.["Permissions"]) return "permissions";
  const decision = decide(config, { namespace: "default", service: "web" }, "api");
  const isAllowed = decision?.allowed ?? (intentionPolicy ?? acl.defaultPolicy) === "allow";
  return isAllowed ? "allow" : "deny";
}
