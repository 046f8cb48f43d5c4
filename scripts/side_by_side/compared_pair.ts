/**
 * A pair of services, `web-SIDE` that calls `db-SIDE`, whose sidecars are of one side: a story's steps
 * on it, and their results in words.
 *
 * @module
 */

import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import type { Cluster } from "../../test/kit/mesh/cluster.ts";
import { EchoClient, type Place, type TestServer } from "../../test/kit/wire/echo.ts";
import type { Logins } from "../../test/kit/mesh/login.ts";
import { eventually, type Process } from "../../test/kit/process/process.ts";
import { presentedSerial } from "../../test/kit/wire/tls_probe.ts";
import { familyOf, memoryOf, serverConnections, type Side, type SidecarOptions } from "./sides.ts";

const HELLO = new TextEncoder().encode("hello");
/** A change that takes longer counts as never made. */
const PATIENCE_MS = 60_000;
const ECHO_MS = 2_000;
/** Noise makes one start slow. */
const STARTS = 5;

export class ComparedPair implements AsyncDisposable {
  readonly #cluster: Cluster;
  readonly #side: Side;
  readonly #apps: TestServer[] = [];
  /** Sidecars by service id. */
  readonly #sidecars = new Map<string, Process>();
  readonly #web: string;
  readonly #db: string;
  #upstream: Place = { host: "", port: 0 };
  #second: Place = { host: "", port: 0 };
  #public: Place = { host: "", port: 0 };
  #serialBefore = "";
  #open: EchoClient | undefined;

  constructor(cluster: Cluster, side: Side) {
    this.#cluster = cluster;
    this.#side = side;
    this.#web = `web-${side.name}`;
    this.#db = `db-${side.name}`;
  }

  /** Both services, db with two instances, and one more that web does not call yet. */
  async register(): Promise<void> {
    const cluster = this.#cluster;
    for (const greeting of ["one", "two", "cache"]) this.#apps.push(await cluster.echo(greeting));
    const [one, two, cache] = this.#apps;
    this.#public = await cluster.place();
    this.#upstream = await cluster.place();
    this.#second = await cluster.place();
    await cluster.register({
      name: this.#db,
      id: `${this.#db}-1`,
      port: one?.port ?? 0,
      sidecarPort: this.#public.port,
    });
    await cluster.register({ name: this.#db, id: `${this.#db}-2`, port: two?.port ?? 0 });
    const other = this.#other;
    await cluster.register({ name: other, id: `${other}-1`, port: cache?.port ?? 0 });
    await this.#registerWeb(false);
    await cluster.intention(this.#web, this.#db, "allow");
    await cluster.intention(this.#web, other, "allow");
  }

  /** Starts all sidecars; returns the shortest time from web's start to an echo. */
  async start(): Promise<string> {
    for (const id of [`${this.#db}-1`, `${this.#db}-2`, `${this.#other}-1`]) {
      await this.#run({ serviceId: id });
    }
    const tookMs: number[] = [];
    for (let turn = 0; turn < STARTS; turn++) {
      await this.#sidecars.get(`${this.#web}-1`)?.stop();
      const began = performance.now();
      await this.#run({ serviceId: `${this.#web}-1` });
      await this.#echoes(this.#upstream);
      tookMs.push(performance.now() - began);
    }
    await this.#reopen();
    return seconds(Math.min(...tookMs));
  }

  async memory(): Promise<string> {
    const { pssBytes, rssBytes } = await memoryOf(await familyOf(this.#webPid));
    return `${megabytes(pssBytes)}, ${megabytes(rssBytes)}`;
  }

  async connections(): Promise<string> {
    return String(await serverConnections(this.#cluster, await familyOf(this.#webPid)));
  }

  /** The index of the server that db's sidecar uses. */
  server(): Promise<number> {
    return this.#cluster.serverOf({ pid: this.#sidecars.get(`${this.#db}-1`)?.pid ?? 0 });
  }

  /** After a deny: the time until new connections are refused, and until the open one ends. */
  async deny(): Promise<string> {
    await this.#reopen();
    await this.#write("deny");
    const began = performance.now();
    const refused = await eventually("refused", async () => !await this.#isServed(this.#upstream), {
      timeoutMs: PATIENCE_MS,
    }).then(() => `refuses new after ${seconds(performance.now() - began)}`, () => "lets new in");
    const open = this.#open;
    const closed = await eventually("closed", () => open?.isOver, { timeoutMs: 3_000 })
      .then(() => "closes open", () => "leaves open ones open");
    return `${refused}, ${closed}`;
  }

  async allow(): Promise<string> {
    await this.#write("allow");
    const began = performance.now();
    const served = await this.#isServedWithin(this.#upstream);
    await this.#reopen();
    return served ? `serves after ${seconds(performance.now() - began)}` : "refuses";
  }

  async addUpstream(): Promise<string> {
    await this.#registerWeb(true);
    const began = performance.now();
    const served = await this.#isServedWithin(this.#second);
    return served ? `serves it after ${seconds(performance.now() - began)}` : "does not serve it";
  }

  /** db's second instance leaves the catalog, and is killed half a second later. */
  async loseInstance(): Promise<string> {
    const id = `${this.#db}-2`;
    await this.#cluster.deregister(id);
    const began = performance.now();
    await eventually("the rest answers", async () => {
      for (let turn = 0; turn < 8; turn++) {
        if (await this.#asked(this.#upstream) !== "one") return false;
      }
      return true;
    }, { timeoutMs: PATIENCE_MS });
    const ms = performance.now() - began;
    await this.#sidecars.get(id)?.stop();
    // The one that is open may have been its.
    await this.#reopen();
    return `asks the other alone after ${seconds(ms)}`;
  }

  /** After a rotation of the roots. */
  async followsRotation(): Promise<string> {
    const began = performance.now();
    await eventually("another leaf", async () => await this.#serial() !== this.#serialBefore, {
      timeoutMs: PATIENCE_MS,
      everyMs: 100,
    });
    const ms = performance.now() - began;
    return `new leaf after ${seconds(ms)}; ${await this.serves()}`;
  }

  /** Stores the serial that {@link followsRotation} compares with. */
  async rememberLeaf(): Promise<void> {
    this.#serialBefore = await this.#serial();
  }

  /** Whether the open connection still exchanges, and ten new ones do. */
  async serves(): Promise<string> {
    const open = await this.#open?.exchange(HELLO, { timeoutMs: ECHO_MS })
      .then(() => "open goes on", () => "open is lost");
    let served = 0;
    for (let turn = 0; turn < 10; turn++) if (await this.#isServed(this.#upstream)) served++;
    return `${open}, ${served} of 10 new`;
  }

  /** Ends what has a token of its own, and starts it with logins. */
  async loginInstead(logins: Logins, directory: string): Promise<void> {
    const ids = [`${this.#db}-1`, `${this.#web}-1`];
    for (const serviceId of ids) {
      await this.#sidecars.get(serviceId)?.stop();
      const bearerFile = join(directory, serviceId);
      await logins.bearer({ svc: serviceId.replace(/-1$/, "") });
      await copyFile(logins.file, bearerFile);
      await this.#run({ serviceId, login: { authMethod: logins.flags[1] ?? "", bearerFile } });
    }
    await this.#write("allow");
    await this.#echoes(this.#upstream);
    await this.#reopen();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#open?.destroy();
    for (const sidecar of this.#sidecars.values()) await sidecar[Symbol.asyncDispose]();
    for (const app of this.#apps) await app.close();
  }

  get #other(): string {
    return `cache-${this.#side.name}`;
  }

  get #webPid(): number {
    return this.#sidecars.get(`${this.#web}-1`)?.pid ?? 0;
  }

  #serial(): Promise<string> {
    return presentedSerial(this.#public, { agent: this.#cluster, as: this.#web });
  }

  async #registerWeb(withSecond: boolean): Promise<void> {
    const upstreams = [{ name: this.#db, port: this.#upstream.port }];
    if (withSecond) upstreams.push({ name: this.#other, port: this.#second.port });
    await this.#cluster.register({ name: this.#web, id: `${this.#web}-1`, upstreams });
  }

  async #run(options: SidecarOptions): Promise<void> {
    const service = options.serviceId.replace(/-\d$/, "");
    const token = options.login ? {} : { token: await this.#cluster.serviceToken(service) };
    const sidecar = await this.#side.start(this.#cluster, { ...options, ...token });
    this.#sidecars.set(options.serviceId, sidecar);
  }

  async #write(action: "allow" | "deny"): Promise<void> {
    await eventually("a leader takes a write", async () => {
      await this.#cluster.intention(this.#web, this.#db, action);
      return true;
    }, { timeoutMs: PATIENCE_MS });
  }

  async #reopen(): Promise<void> {
    this.#open?.destroy();
    this.#open = await eventually("a connection stays open", async () => {
      const client = await EchoClient.open(this.#upstream);
      await client.readLine({ timeoutMs: ECHO_MS });
      await client.exchange(HELLO, { timeoutMs: ECHO_MS });
      return client;
    }, { timeoutMs: PATIENCE_MS });
  }

  async #echoes(place: Place): Promise<void> {
    await eventually(`${this.#side.name} is served`, () => this.#isServed(place), {
      timeoutMs: PATIENCE_MS,
    });
  }

  async #isServedWithin(place: Place): Promise<boolean> {
    return await this.#echoes(place).then(() => true, () => false);
  }

  async #isServed(place: Place): Promise<boolean> {
    return await this.#asked(place) !== undefined;
  }

  /** The instance that answered a new connection. */
  async #asked(place: Place): Promise<string | undefined> {
    let client: EchoClient | undefined;
    try {
      client = await EchoClient.open(place, { timeoutMs: ECHO_MS });
      const line = await client.readLine({ timeoutMs: ECHO_MS });
      await client.exchange(HELLO, { timeoutMs: ECHO_MS });
      return line;
    } catch {
      return undefined; // refused, ended or silent: not served
    } finally {
      client?.destroy();
    }
  }
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MiB`;
}
