/**
 * A registered sidecar with credentials of its own, on any agent that speaks Consul's HTTP interface:
 * the real one, or the one in memory.
 *
 * @module
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Authority } from "../certs/authority.ts";
import { createAuthority } from "../certs/certificates.ts";
import type { Mesh, MeshUpstream } from "./mesh.ts";
import type { Postern } from "../process/postern.ts";
import { eventually } from "../process/process.ts";
import { newPair, temporaryDirectory, type TestPair } from "../secrets/secret_files.ts";
import { type AgentLeaf, type ProbeOutcome, probeTls, serialOf } from "../wire/tls_probe.ts";
import type { Place, TestServer } from "../wire/echo.ts";

/** The service `db`, its application an echo, registered with a story's sidecar block. */
export class CredentialsStory implements AsyncDisposable {
  readonly agent: Mesh;
  readonly app: TestServer;
  /** db's public listener. */
  readonly place: Place;
  /** Strangers to the mesh. */
  readonly other: Authority = createAuthority({ trustDomain: "other.test" });
  readonly #directory: { readonly path: string } & AsyncDisposable;
  #posterns: Postern[] = [];

  private constructor(parts: {
    readonly agent: Mesh;
    readonly app: TestServer;
    readonly place: Place;
    readonly directory: { readonly path: string } & AsyncDisposable;
  }) {
    this.agent = parts.agent;
    this.app = parts.app;
    this.place = parts.place;
    this.#directory = parts.directory;
  }

  /** `web` may call `db`, no other service. */
  static async start(agent: Mesh): Promise<CredentialsStory> {
    const app = await agent.echo();
    const place = await agent.place();
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
    upstreams: readonly MeshUpstream[] = [],
  ): Promise<void> {
    const { agent, app, place } = this;
    await agent.register({
      name: "db",
      port: app.port,
      sidecarPort: place.port,
      config,
      upstreams,
    });
  }

  /** Starts db's sidecar; nothing is waited for. */
  run(...args: readonly string[]): Postern {
    return this.#kept(this.agent.runSidecar("db-1", { args }));
  }

  /** The same for a sidecar that cannot learn from the agent which proxy it is. */
  runById(...args: readonly string[]): Postern {
    return this.#kept(this.agent.runById("db-1", { args }));
  }

  #kept(postern: Postern): Postern {
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
