/**
 * A mesh around an agent, whichever it is: services registered as an operator writes them, and their
 * sidecars as processes of the real program.
 *
 * @module
 */

import { AgentCalls } from "./agent_calls.ts";
import { type Place, startEcho, type TestServer } from "../wire/echo.ts";
import { freePort } from "../process/ports.ts";
import { type Postern, ready, startPostern } from "../process/postern.ts";

export interface MeshUpstream {
  readonly name: string;
  readonly port: number;
  readonly datacenter?: string;
  readonly type?: "service" | "prepared_query";
  readonly config?: Readonly<Record<string, unknown>>;
}

export interface MeshService {
  readonly name: string;
  /** `NAME-1` if absent. */
  readonly id?: string;
  /** Where all of it listens; the mesh's address if absent. */
  readonly host?: string;
  /** Where the application listens; a port where nothing does if absent. */
  readonly port?: number;
  readonly sidecarPort?: number;
  readonly upstreams?: readonly MeshUpstream[];
  readonly meta?: Readonly<Record<string, string>>;
  readonly config?: Readonly<Record<string, unknown>>;
  /** Consul's own two checks, one of them a TCP check every 10 s, instead of a lenient one. */
  readonly defaultChecks?: boolean;
}

/** How a process of the program is run. */
export interface RunOptions {
  readonly token?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Words in front of the command, see {@link startPostern}. */
  readonly under?: readonly string[];
}

/** The agent options of a story. */
export interface StoryAgent {
  /** ACLs on: each call needs a token. */
  readonly acl?: boolean;
  readonly defaultIntentionPolicy?: "allow" | "deny";
  /** Sidecars speak to a client agent, as on most hosts, not to the server. */
  readonly clientAgent?: boolean;
}

/** Agents of one kind, on which the stories that hold on every kind run. */
export interface Agents {
  start(options?: StoryAgent): Promise<Mesh>;
}

export abstract class Mesh extends AgentCalls {
  /** All of this mesh listens here. */
  abstract readonly host: string;
  /** The engine that the program needs; absent: any that the machine has. */
  readonly engine?: "bun" | "deno";

  abstract start(): Promise<void>;
  /** The agent ends at once, and remembers what its kind remembers. */
  abstract kill(): Promise<void>;
  /** It loses everything, its CA and trust domain included, and answers again at the same address. */
  abstract wipeCluster(): Promise<void>;
  abstract [Symbol.asyncDispose](): Promise<void>;

  /** A free one, and never the same twice. */
  async place(): Promise<Place> {
    return { host: this.host, port: await freePort(this.host) };
  }

  echo(greeting?: string): Promise<TestServer> {
    return startEcho({ host: this.host, ...(greeting ? { greeting: `${greeting}\n` } : {}) });
  }

  /** Registers a service with its sidecar; registering again changes it. Its id. */
  async register(service: MeshService): Promise<string> {
    const body = await this.registrationOf(service);
    await this.put("/v1/agent/service/register", body);
    return body.ID;
  }

  /** The registration that an agent gets. */
  protected async registrationOf(
    service: MeshService,
  ): Promise<{ readonly ID: string } & Readonly<Record<string, unknown>>> {
    const { name, id = `${name}-1`, host = this.host, upstreams = [] } = service;
    // Nothing that could find the port closed before the sidecar is up and say so a second later.
    const checks = [{ Name: "alias", AliasService: id, Status: "passing" }];
    return {
      Name: name,
      ID: id,
      Address: host,
      Port: service.port ?? await freePort(host),
      Meta: service.meta ?? {},
      Connect: {
        SidecarService: {
          Port: service.sidecarPort ?? await freePort(host),
          ...(service.defaultChecks ? {} : { Checks: checks }),
          Proxy: {
            LocalServiceAddress: host,
            ...(service.config ? { Config: service.config } : {}),
            Upstreams: upstreams.map((upstream) => ({
              DestinationName: upstream.name,
              DestinationType: upstream.type ?? "service",
              ...(upstream.datacenter ? { Datacenter: upstream.datacenter } : {}),
              LocalBindAddress: host,
              LocalBindPort: upstream.port,
              ...(upstream.config ? { Config: upstream.config } : {}),
            })),
          },
        },
      },
    };
  }

  /** Starts `postern` with this mesh's agent; nothing is waited for. */
  run(words: readonly string[], options: RunOptions = {}): Postern {
    const { token, args = [], env, under } = options;
    return startPostern([...words, ...args], {
      env: {
        CONSUL_HTTP_ADDR: this.address,
        ...(token ? { CONSUL_HTTP_TOKEN: token } : {}),
        ...env,
      },
      ...(under ? { under } : {}),
      ...(this.engine ? { engine: this.engine } : {}),
    });
  }

  /** Starts the sidecar of a registered service; nothing is waited for. */
  runSidecar(serviceId: string, options: RunOptions = {}): Postern {
    return this.run(["proxy", "-sidecar-for", serviceId, "-admin-bind", "127.0.0.1:0"], options);
  }

  /** The same for a sidecar that cannot learn from the agent which proxy it is. */
  runById(serviceId: string, options: RunOptions = {}): Postern {
    const id = `${serviceId}-sidecar-proxy`;
    return this.run(["proxy", "-proxy-id", id, "-admin-bind", "127.0.0.1:0"], options);
  }

  /** Starts a sidecar that registers itself; `id` is for meshes that need a node for it. */
  runRegistering(_id: string, args: readonly string[]): Postern {
    return this.run(["proxy", "-register", "-admin-bind", "127.0.0.1:0", ...args]);
  }

  /** Starts the sidecar of a registered service and waits until it is ready. */
  async sidecar(serviceId: string, options: RunOptions = {}): Promise<Postern> {
    return await ready(this.runSidecar(serviceId, options));
  }

  /** Registers, and starts the sidecar, with the service's own token where there are ACLs. */
  async serve(service: MeshService, options: RunOptions = {}): Promise<Postern> {
    return await this.sidecar(await this.register(service), {
      ...await this.ownToken(service.name),
      ...options,
    });
  }

  /** The token of a sidecar of `service`. */
  async ownToken(service: string): Promise<Pick<RunOptions, "token">> {
    return this.managementToken ? { token: await this.serviceToken(service) } : {};
  }
}
