/**
 * The same service of each protocol behind Envoy and behind Postern, and a caller of all of them behind
 * each, on one real Consul: requests through one pair can be compared with those through another. Beside
 * them are instances without a proxy, which speak mTLS themselves, and services that are config entries
 * alone.
 *
 * @module
 */

import {
  type PlannedApp,
  type Seen,
  type SeenMessage,
  startPlannedApp,
} from "../wire/planned_app.ts";
import { type Consul, startConsul } from "./consul.ts";
import type { Place } from "../wire/echo.ts";
import type { Postern } from "../process/postern.ts";
import { freePorts } from "../process/ports.ts";
import { envoySidecar } from "./sidecars.ts";
import { readLeaf } from "../wire/tls_probe.ts";

export const PROXIES = ["envoy", "postern"] as const;
export type Proxy = (typeof PROXIES)[number];
const PROTOCOLS = ["http", "http2", "grpc"] as const;
export type Protocol = (typeof PROTOCOLS)[number];

/** An application's timeout for a whole request: more than any of them needs on a busy machine. */
const REQUEST_TIMEOUT_MS = 8_000;
/** Upstreams of the caller that lead nowhere: no instance, and one where nothing listens. */
export const NOWHERE = ["none", "lost"] as const;

/** The path that is exposed of each `http` service, to all callers. */
export const EXPOSED = "/exposed";

export type Json = Readonly<Record<string, unknown>>;

/** The registrations for both pairs. */
export interface MeshWorld {
  /** Written first. */
  readonly shared: readonly Json[];
  /** Services that config entries make up: upstreams of both callers. */
  readonly upstreams: readonly string[];
  /** In their order, for each pair; `at`: a name as that pair has it. */
  readonly entries: (at: (name: string) => string) => readonly Json[];
}

const NO_WORLD: MeshWorld = { shared: [], upstreams: [], entries: () => [] };

/** Services with one instance, for each pair. */
export const LIMITED = ["requests", "connections", "pending", "scarce"] as const;

interface Native {
  readonly version?: string;
  /** The status of a check; passing if absent. */
  readonly status?: "warning" | "critical";
  /** No application listens. */
  readonly isDead?: true;
}

/** Instances without a proxy, by service and name. */
const NATIVES: Readonly<Record<string, Readonly<Record<string, Native>>>> = {
  other: { other: {} },
  many: { m1: { version: "1" }, m2: { version: "1" }, m3: { version: "2" } },
  sick: { s1: {}, s2: { status: "warning" }, s3: { status: "critical" } },
  ill: { i1: { status: "critical" } },
  patchy: { p1: {}, p2: { isDead: true } },
  dead: { d1: { isDead: true } },
  random: { a1: {}, a2: {} },
  least: { l1: {}, l2: {} },
  ring: { r1: {}, r2: {}, r3: {} },
  maglev: { g1: {}, g2: {}, g3: {} },
  lone: { lone: {} },
  // Services of each pair's own: with common ones the pairs would wait for each other.
  ...Object.fromEntries(
    PROXIES.flatMap((proxy) => LIMITED.map((name) => [`${name}-${proxy}`, { [name]: {} }])),
  ),
};

const PERMISSIONS = [
  { Action: "deny", HTTP: { PathPrefix: "/denied" } },
  { Action: "allow", HTTP: { PathPrefix: "/" } },
];

export class MixedMesh implements AsyncDisposable {
  readonly consul: Consul;
  readonly apps: Readonly<Record<Protocol, PlannedApp>>;
  readonly #own = new AsyncDisposableStack();
  readonly #places = new Map<string, Place>();
  readonly #posterns = new Map<string, Postern>();

  readonly #seen: Seen;

  private constructor(
    consul: Consul,
    { apps, seen }: Pick<MixedMesh, "apps"> & { readonly seen: Seen },
  ) {
    this.consul = consul;
    this.apps = apps;
    this.#seen = seen;
  }

  static async start(world: MeshWorld = NO_WORLD): Promise<MixedMesh> {
    await using own = new AsyncDisposableStack();
    const consul = own.use(await startConsul({ defaultIntentionPolicy: "deny" }));
    const { host } = consul;
    const seen: Seen = new Map();
    const http = own.use(await startPlannedApp({ protocol: "http", host, seen }));
    const http2 = own.use(await startPlannedApp({ protocol: "http2", host, seen }));
    const mesh = new MixedMesh(consul, { apps: { http, http2, grpc: http2 }, seen });
    mesh.#own.use(own.move());
    try {
      await mesh.#start(world);
    } catch (error) {
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
    return mesh;
  }

  async #start(world: MeshWorld): Promise<void> {
    const { consul } = this;
    await consul.configEntry({
      Kind: "proxy-defaults",
      Name: "global",
      Config: { protocol: "http" },
    });
    const services = PROTOCOLS.flatMap((protocol) =>
      PROXIES.map((proxy) => ({ protocol, proxy, name: `${protocol}-${proxy}` }))
    );
    const nowhere = NOWHERE.map((name) => ({ name, protocol: "http" as const }));
    for (const { name, protocol } of [...services, ...nowhere]) {
      const exposed = protocol === "http" ? await consul.place() : undefined;
      if (exposed) this.#places.set(`exposed ${name}`, exposed);
      const paths = [{
        Path: EXPOSED,
        Protocol: "http",
        ListenerPort: exposed?.port,
        LocalPathPort: this.apps.http.port,
      }];
      await consul.configEntry({
        Kind: "service-defaults",
        Name: name,
        Protocol: protocol,
        LocalRequestTimeoutMs: REQUEST_TIMEOUT_MS,
        ...(exposed ? { Expose: { Paths: paths } } : {}),
      });
      await consul.configEntry({
        Kind: "service-intentions",
        Name: name,
        Sources: [{ Name: "web", Permissions: PERMISSIONS }],
      });
    }
    await consul.register({ name: "lost" });
    for (const Name of Object.keys(NATIVES)) {
      await consul.configEntry({
        Kind: "service-intentions",
        Name,
        Sources: [{ Name: "web", Action: "allow" }],
      });
    }
    await Promise.all(
      Object.entries(NATIVES).flatMap(([service, instances]) =>
        Object.entries(instances).map(([name, native]) => this.#native(service, { name, native }))
      ),
    );
    for (const entry of world.shared) await consul.configEntry(entry);
    for (const proxy of PROXIES) {
      for (const entry of world.entries((name) => `${name}-${proxy}`)) {
        await consul.configEntry(entry);
      }
    }
    const begun = services.map(async ({ protocol, proxy, name }) => {
      const id = await consul.register({ name, port: this.apps[protocol].port });
      await this.#sidecar(proxy, { id, name });
    });
    const names = [
      ...[...services, ...nowhere].map(({ name }) => name),
      ...world.upstreams.flatMap((name) => PROXIES.map((proxy) => `${name}-${proxy}`)),
    ];
    begun.push(...PROXIES.map(async (proxy) => {
      const ports = await freePorts(consul.host, names.length);
      const upstreams = names.map((name, at) => ({ name, port: ports[at] ?? 0 }));
      const id = await consul.register({ name: "web", id: `web-${proxy}`, upstreams });
      for (const { name, port } of upstreams) {
        this.#places.set(`${proxy} ${name}`, { host: consul.host, port });
      }
      await this.#sidecar(proxy, { id, name: `web-${proxy}` });
    }));
    await Promise.all(begun);
  }

  async #native(
    service: string,
    { name, native }: { readonly name: string; readonly native: Native },
  ): Promise<void> {
    const { consul } = this;
    const { version, status = "passing", isDead } = native;
    await consul.put("/v1/agent/service/register", {
      Name: service,
      ID: `${service}-${name}`,
      Address: consul.host,
      Port: isDead ? (await consul.place()).port : (await this.#nativeApp(service, name)).port,
      Meta: version === undefined ? {} : { version },
      Connect: { Native: true },
      Check: { Name: "own", TTL: "10m", Status: status },
    });
  }

  async #nativeApp(service: string, name: string): Promise<PlannedApp> {
    const { CertPEM: cert, PrivateKeyPEM: key } = await readLeaf(this.consul, service);
    return this.#own.use(
      await startPlannedApp({
        protocol: "http",
        host: this.consul.host,
        name,
        seen: this.#seen,
        tls: { cert, key },
      }),
    );
  }

  /** Every try at a request that came to an application. */
  seen(asked: string): readonly SeenMessage[] {
    return this.#seen.get(asked) ?? [];
  }

  async #sidecar(proxy: Proxy, { id, name }: Readonly<Record<"id" | "name", string>>) {
    const { consul } = this;
    if (proxy === "envoy") return void this.#own.use(await envoySidecar(consul, id, {}));
    this.#posterns.set(name, this.#own.use(await consul.sidecar(id)));
  }

  /** The Postern beside `web-postern`, `http-postern` and their like; `undefined`: there is none. */
  postern(name: string): Postern | undefined {
    return this.#posterns.get(name);
  }

  /** Where the caller behind `from` reaches the service `to`. */
  upstream(from: Proxy, to: string): Place {
    return this.#place(`${from} ${to}`);
  }

  /** Where any caller reaches {@link EXPOSED} of the service behind `proxy`. */
  exposed(proxy: Proxy): Place {
    return this.#place(`exposed http-${proxy}`);
  }

  #place(name: string): Place {
    const place = this.#places.get(name);
    if (!place) throw new Error(`Nothing listens for ${name}`);
    return place;
  }

  /** From now on nothing listens on the ports of the applications. */
  async stopApps(): Promise<void> {
    const { http, http2 } = this.apps;
    await Promise.all([http, http2].map((app) => app[Symbol.asyncDispose]()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#own[Symbol.asyncDispose]();
  }
}
