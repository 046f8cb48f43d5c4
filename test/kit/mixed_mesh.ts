/**
 * The same service of each protocol behind Envoy and behind Postern, and a caller of all of them behind
 * each, on one real Consul: what passes a pair can be compared with what passes another.
 *
 * @module
 */

import { type AskedApp, startAskedApp } from "./asked_app.ts";
import { type Consul, startConsul } from "./consul.ts";
import type { Place } from "./echo.ts";
import { freePorts } from "./ports.ts";
import { envoySidecar } from "./sidecars.ts";

export const PROXIES = ["envoy", "postern"] as const;
export type Proxy = (typeof PROXIES)[number];
export const PROTOCOLS = ["http", "http2", "grpc"] as const;
export type Protocol = (typeof PROTOCOLS)[number];

/** Of an application to a whole request: more than any of them needs on a busy machine. */
const REQUEST_TIMEOUT_MS = 8_000;
/** Upstreams of the caller that lead nowhere: no instance, and one where nobody listens. */
export const NOWHERE = ["none", "lost"] as const;

/** What is exposed of each `http` service, to everybody. */
export const EXPOSED = "/exposed";

type Json = Readonly<Record<string, unknown>>;

const PERMISSIONS = [
  { Action: "deny", HTTP: { PathPrefix: "/denied" } },
  { Action: "allow", HTTP: { PathPrefix: "/" } },
];

export class MixedMesh implements AsyncDisposable {
  readonly consul: Consul;
  readonly apps: Readonly<Record<Protocol, AskedApp>>;
  readonly #own = new AsyncDisposableStack();
  readonly #places = new Map<string, Place>();

  private constructor(consul: Consul, apps: Readonly<Record<Protocol, AskedApp>>) {
    this.consul = consul;
    this.apps = apps;
  }

  static async start(entries: readonly Json[] = []): Promise<MixedMesh> {
    await using own = new AsyncDisposableStack();
    const consul = own.use(await startConsul({ defaultIntentionPolicy: "deny" }));
    const { host } = consul;
    const http = own.use(await startAskedApp({ protocol: "http", host }));
    const http2 = own.use(await startAskedApp({ protocol: "http2", host }));
    const mesh = new MixedMesh(consul, { http, http2, grpc: http2 });
    mesh.#own.use(own.move());
    for (const entry of entries) await consul.configEntry(entry);
    try {
      await mesh.#start();
    } catch (error) {
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
    return mesh;
  }

  async #start(): Promise<void> {
    const { consul } = this;
    const services = PROTOCOLS.flatMap((protocol) =>
      PROXIES.map((proxy) => ({ protocol, proxy, name: `${protocol}-${proxy}` }))
    );
    const nowhere = NOWHERE.map((name) => ({ name, protocol: "http" as const }));
    for (const { name, protocol } of [...services, ...nowhere]) {
      const exposed = protocol === "http" ? await consul.place() : undefined;
      if (exposed) this.#places.set(`exposed ${name}`, exposed);
      const paths = [{
        ...{ Path: EXPOSED, Protocol: "http", ListenerPort: exposed?.port },
        LocalPathPort: this.apps.http.port,
      }];
      await consul.configEntry({
        ...{ Kind: "service-defaults", Name: name, Protocol: protocol },
        LocalRequestTimeoutMs: REQUEST_TIMEOUT_MS,
        ...(exposed ? { Expose: { Paths: paths } } : {}),
      });
      await consul.configEntry({
        ...{ Kind: "service-intentions", Name: name },
        Sources: [{ Name: "web", Permissions: PERMISSIONS }],
      });
    }
    await consul.register({ name: "lost" });
    const begun = services.map(async ({ protocol, proxy, name }) => {
      const id = await consul.register({ name, port: this.apps[protocol].port });
      await this.#sidecar(proxy, id);
    });
    const names = [...services, ...nowhere].map(({ name }) => name);
    begun.push(...PROXIES.map(async (proxy) => {
      const ports = await freePorts(consul.host, names.length);
      const upstreams = names.map((name, at) => ({ name, port: ports[at] ?? 0 }));
      const id = await consul.register({ name: "web", id: `web-${proxy}`, upstreams });
      for (const { name, port } of upstreams) {
        this.#places.set(`${proxy} ${name}`, { host: consul.host, port });
      }
      await this.#sidecar(proxy, id);
    }));
    await Promise.all(begun);
  }

  async #sidecar(proxy: Proxy, id: string): Promise<void> {
    const { consul } = this;
    this.#own.use(
      proxy === "envoy" ? await envoySidecar(consul, id, {}) : await consul.sidecar(id),
    );
  }

  /** Where the caller behind `from` reaches the service `to`. */
  upstream(from: Proxy, to: string): Place {
    return this.#place(`${from} ${to}`);
  }

  /** Where everybody reaches {@link EXPOSED} of the service behind `proxy`. */
  exposed(proxy: Proxy): Place {
    return this.#place(`exposed http-${proxy}`);
  }

  #place(name: string): Place {
    const place = this.#places.get(name);
    if (!place) throw new Error(`Nothing listens for ${name}`);
    return place;
  }

  /** From now on nobody listens where the applications did. */
  async stopApps(): Promise<void> {
    const { http, http2 } = this.apps;
    await Promise.all([http, http2].map((app) => app[Symbol.asyncDispose]()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#own[Symbol.asyncDispose]();
  }
}
