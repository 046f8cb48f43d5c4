/**
 * A registered sidecar with credentials of its own, on any agent that speaks Consul's HTTP interface:
 * the real one, or the one in memory.
 *
 * @module
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Authority } from "../../src/dev/ca/authority.ts";
import { createAuthority } from "./certificates.ts";
import type { Consul } from "./consul.ts";
import type { DevMesh } from "./dev_mesh.ts";
import { OWN_ENGINE, type Postern, startPostern } from "./postern.ts";
import { eventually } from "./process.ts";
import { newPair, temporaryDirectory, type TestPair } from "./secret_files.ts";
import { type AgentLeaf, type ProbeOutcome, probeTls, serialOf } from "./tls_probe.ts";
import { type EchoServer, type Place, startEcho } from "./echo.ts";
import { freePort } from "./ports.ts";
import { registerService, type UpstreamOptions } from "./mesh.ts";

/** What a story needs of an agent. */
export interface AnyAgent {
  readonly host: string;
  /** `host:port` of the HTTP interface. */
  readonly address: string;
  put(path: string, body?: unknown): Promise<string>;
  get<T>(path: string): Promise<T>;
  intention(source: string, destination: string, action: "allow" | "deny"): Promise<void>;
}

export function anyAgent(agent: Consul | DevMesh): AnyAgent {
  if (!("agent" in agent)) return agent;
  const { host, agent: { address } } = agent;
  const authority = address.replace(/^http:\/\//, "");
  const call = async (path: string, init: RequestInit = {}) => {
    const reply = await fetch(`http://${authority}${path}`, init);
    const body = await reply.text();
    if (!reply.ok) throw new Error(`${path}: ${reply.status} ${body}`);
    return body;
  };
  return {
    host,
    address,
    put: (path, body) =>
      call(path, { method: "PUT", ...body === undefined ? {} : { body: JSON.stringify(body) } }),
    get: async <T>(path: string) => JSON.parse(await call(path)) as T,
    intention: (source, destination, action) =>
      Promise.resolve(agent.agent.setIntention(source, destination, action)),
  };
}

/** The service `db`, its application an echo, registered with what a story says of its sidecar. */
export class CredentialsStory implements AsyncDisposable {
  readonly agent: AnyAgent;
  readonly app: EchoServer;
  /** db's public listener. */
  readonly place: Place;
  /** Strangers to the mesh. */
  readonly other: Authority = createAuthority({ trustDomain: "other.test" });
  readonly #directory: { readonly path: string } & AsyncDisposable;
  #posterns: Postern[] = [];

  private constructor(parts: {
    readonly agent: AnyAgent;
    readonly app: EchoServer;
    readonly place: Place;
    readonly directory: { readonly path: string } & AsyncDisposable;
  }) {
    this.agent = parts.agent;
    this.app = parts.app;
    this.place = parts.place;
    this.#directory = parts.directory;
  }

  /** `web` may call `db`, nobody else. */
  static async start(from: Consul | DevMesh): Promise<CredentialsStory> {
    const agent = anyAgent(from);
    const app = await startEcho({ host: agent.host });
    const place = { host: agent.host, port: await freePort(agent.host) };
    const directory = await temporaryDirectory();
    await agent.intention("*", "db", "deny");
    await agent.intention("web", "db", "allow");
    return new CredentialsStory({ agent, app, place, directory });
  }

  path(name: string): string {
    return join(this.#directory.path, name);
  }

  /** Registers db, or changes its registration. */
  async register(
    config: Readonly<Record<string, unknown>>,
    upstreams: readonly UpstreamOptions[] = [],
  ): Promise<void> {
    const { agent, app, place } = this;
    await registerService(agent, {
      ...{ name: "db", host: agent.host, port: app.port, sidecarPort: place.port },
      ...{ config, upstreams },
    });
  }

  /** Starts db's sidecar; nothing is waited for. */
  run(...args: readonly string[]): Postern {
    const words = ["proxy", "-sidecar-for", "db-1", "-admin-bind", "127.0.0.1:0"];
    return this.#run(words, args);
  }

  /** The same for one that cannot ask the agent which proxy it is. */
  runById(...args: readonly string[]): Postern {
    const words = ["proxy", "-proxy-id", "db-1-sidecar-proxy", "-admin-bind", "127.0.0.1:0"];
    return this.#run(words, args);
  }

  #run(words: readonly string[], args: readonly string[]): Postern {
    const postern = startPostern([...words, ...args], {
      env: { CONSUL_HTTP_ADDR: this.agent.address },
      engine: OWN_ENGINE,
    });
    this.#posterns.push(postern);
    return postern;
  }

  /** A new pair in `NAME.pem` and `NAME.key`; its serial. */
  async writePair(name: string, pair: TestPair = newPair("db")): Promise<string> {
    await writeFile(this.path(`${name}.key`), pair.keyPem, { mode: 0o600 });
    await writeFile(this.path(`${name}.pem`), pair.certPem);
    return serialOf(pair.certPem);
  }

  /** Whether db's listener takes a client with the agent's leaf for `service`. */
  async probeAs(service: string): Promise<ProbeOutcome> {
    const { CertPEM, PrivateKeyPEM } = await this.leaf(service);
    return await probeTls(this.place, { cert: CertPEM, key: PrivateKeyPEM });
  }

  /** The same for a leaf of strangers; `uri`: its SPIFFE id. */
  async probeAsStranger(uri?: string): Promise<ProbeOutcome> {
    const leaf = this.other.issueLeaf({ service: "web", ...uri ? { uri } : {} });
    return await probeTls(this.place, { cert: leaf.certPem, key: leaf.keyPem });
  }

  async leaf(service: string): Promise<AgentLeaf> {
    return await this.agent.get<AgentLeaf>(`/v1/agent/connect/ca/leaf/${service}`);
  }

  async meshRoots(): Promise<string> {
    const { Roots } = await this.agent.get<{ Roots: { RootCert: string }[] }>(
      "/v1/agent/connect/ca/roots",
    );
    return Roots.map(({ RootCert }) => RootCert).join("\n");
  }

  /** Waits until db's listener shows that certificate to `web`. */
  async shows(serial: string): Promise<void> {
    await eventually(`db shows ${serial}`, async () => {
      const outcome = await this.probeAs("web");
      return outcome.accepted && outcome.serial === serial;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ends = await Promise.allSettled(
      [...this.#posterns, this.app, this.#directory].map((part) => part[Symbol.asyncDispose]()),
    );
    const failed = ends.find((end) => end.status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }
}
