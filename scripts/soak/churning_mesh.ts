/**
 * Three sidecars from files, `web` and `guest` calling `db`, whose credentials, roots and intentions
 * change while traffic goes on.
 *
 * @module
 */

import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { EchoClient, type Place } from "../../test/kit/wire/echo.ts";
import { posternCommand } from "../../test/kit/process/postern.ts";
import { eventually, pause } from "../../test/kit/process/process.ts";
import { residentBytes } from "../bench/counters.ts";
import { Program } from "../bench/program.ts";
import { get, HOST } from "../bench/site.ts";

/** A reload is read, judged and applied, then open connections are closed within a second. */
const CLOSE_WITHIN_MS = 2_000;
export const SERVICES = ["web", "guest", "db"] as const;
export type Service = typeof SERVICES[number];

export class ChurningMesh {
  readonly #directory: string;
  readonly #ports: Readonly<Record<string, number>>;
  readonly #authority = createAuthority();
  readonly #sidecars = new Map<Service, Program>();
  #guestMay = true;
  #generation = 0;
  rotations = 0;
  flips = 0;
  readonly errors: string[] = [];

  constructor(directory: string, ports: Readonly<Record<string, number>>) {
    this.#directory = directory;
    this.#ports = ports;
  }

  async start(): Promise<void> {
    await this.#renew();
    for (const service of SERVICES) {
      const [command = "", ...first] = posternCommand();
      const admin = this.#port(`${service} admin`);
      this.#sidecars.set(
        service,
        new Program(command, [
          ...[...first, "proxy", "-config", this.#file(`${service}.json`)],
          ...["-admin-bind", `${HOST}:${admin}`, "-log-level", "warn"],
        ], { logFile: this.#file(`${service}.log`) }),
      );
      await eventually(`${service}'s sidecar is ready`, async () => {
        await get(admin, "/ready");
        return true;
      }, { timeoutMs: 20_000 });
    }
  }

  /** Where `service` connects to reach db. */
  upstreamOf(service: "web" | "guest"): Place {
    return { host: HOST, port: this.#port(`${service} upstream`) };
  }

  /** New leaves for all; the trusted roots change with every other generation. */
  async rotate(): Promise<void> {
    await this.#renew();
    for (const service of SERVICES) this.#reload(service);
    this.rotations++;
  }

  /** The guest is denied, or allowed again; its open connection must notice, no other may. */
  async flip(): Promise<void> {
    this.flips++;
    if (!this.#guestMay) {
      await this.#setGuest(true);
      await eventually("the guest is let in again", () => this.#guestCalls(), {
        timeoutMs: CLOSE_WITHIN_MS,
      }).catch((error) => this.#failed(error));
      return;
    }
    const open = await EchoClient.open(this.upstreamOf("guest"));
    try {
      await open.exchange(new Uint8Array(1_000));
      await this.#setGuest(false);
      const late = pause(CLOSE_WITHIN_MS).then(() => "late" as const);
      if (await Promise.race([open.over, late]) === "late") {
        throw new Error(`a denied connection was open after ${CLOSE_WITHIN_MS} ms`);
      }
      if (await this.#guestCalls().catch(() => false)) throw new Error("a denied guest was let in");
    } catch (error) {
      this.#failed(error);
    } finally {
      open.destroy();
    }
  }

  megabytes(): Record<Service, number> {
    const of = (service: Service) => residentBytes(this.#sidecars.get(service)?.pid ?? 0) / 1e6;
    return { web: of("web"), guest: of("guest"), db: of("db") };
  }

  check(): void {
    for (const [service, program] of this.#sidecars) {
      if (program.ended) {
        throw new Error(`${service}'s sidecar ended: ${program.output.slice(-500)}`);
      }
    }
  }

  /** The log lines of sidecars about reloads that they refused. */
  refusals(): string[] {
    return [...this.#sidecars.values()].flatMap(({ output }) =>
      output.split("\n").filter((line) => /refused|\[ERROR\]/.test(line) && !/denied/.test(line))
    );
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#sidecars.values()].map((program) => program.stop()));
  }

  async #guestCalls(): Promise<boolean> {
    const client = await EchoClient.open(this.upstreamOf("guest"));
    try {
      await client.exchange(new Uint8Array(100), { timeoutMs: CLOSE_WITHIN_MS });
      return true;
    } finally {
      client.destroy();
    }
  }

  async #setGuest(may: boolean): Promise<void> {
    this.#guestMay = may;
    await this.#configure("db");
    this.#reload("db");
  }

  #reload(service: Service): void {
    this.#sidecars.get(service)?.kill("SIGHUP");
  }

  #failed(error: unknown): void {
    this.errors.push(error instanceof Error ? error.message : String(error));
  }

  /** Files of a generation have names of their own, so that no reload sees half of one. */
  async #renew(): Promise<void> {
    const generation = ++this.#generation;
    const roots = [this.#authority.rootPem];
    if (generation % 2 === 0) roots.push(createAuthority().rootPem);
    await writeFile(this.#file(`roots-${generation}.pem`), roots.join(""));
    for (const service of SERVICES) {
      const leaf = this.#authority.issueLeaf({ service });
      await writeFile(this.#file(`${service}-${generation}.pem`), leaf.certPem);
      await writeFile(this.#file(`${service}-${generation}.key`), leaf.keyPem);
    }
    for (const service of SERVICES) await this.#configure(service);
    const old = generation - 3;
    for (
      const name of [
        `roots-${old}.pem`,
        ...SERVICES.flatMap((s) => [`${s}-${old}.pem`, `${s}-${old}.key`]),
      ]
    ) {
      await rm(this.#file(name), { force: true });
    }
  }

  async #configure(service: Service): Promise<void> {
    const generation = this.#generation;
    const inbound = {
      inbound: {
        bind: `${HOST}:${this.#port("db inbound")}`,
        local: `${HOST}:${this.#port("echo")}`,
      },
      intentions: [
        { source: "web", action: "allow" },
        { source: "guest", action: this.#guestMay ? "allow" : "deny" },
      ],
    };
    const outbound = {
      upstreams: [{
        name: "db",
        bind: `${HOST}:${this.#port(`${service} upstream`)}`,
        addresses: [`${HOST}:${this.#port("db inbound")}`],
        identity: { service: "db" },
      }],
    };
    const file = this.#file(`${service}.json`);
    await writeFile(
      `${file}.new`,
      JSON.stringify({
        service,
        trustDomain: this.#authority.trustDomain,
        credentials: {
          certFile: this.#file(`${service}-${generation}.pem`),
          keyFile: this.#file(`${service}-${generation}.key`),
          rootsFile: this.#file(`roots-${generation}.pem`),
        },
        ...(service === "db" ? inbound : outbound),
      }),
    );
    await rename(`${file}.new`, file);
  }

  #file(name: string): string {
    return join(this.#directory, name);
  }

  #port(name: string): number {
    const port = this.#ports[name];
    if (port === undefined) throw new Error(`no port for ${name}`);
    return port;
  }
}
