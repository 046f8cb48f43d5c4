/**
 * Two instances of a service are restarted in turn, without a pause and under load, as a rolling deploy
 * does it that waits for nothing but `wait-ready`: callers notice nothing.
 */

import assert from "node:assert/strict";
import test from "node:test";
import { type Place, startEcho, waitForEcho } from "../kit/wire/echo.ts";
import { assertExactlyOnce, HttpLoad } from "../kit/wire/http_load.ts";
import { startCountingOrigin } from "../kit/wire/http_origin.ts";
import { RawClient, statusOf } from "../kit/wire/http_raw.ts";
import { assertFlawless, Load } from "../kit/wire/load.ts";
import { rounds } from "../kit/clock/long.ts";
import type { Agents, Mesh } from "../kit/mesh/mesh.ts";
import { type Postern, ready } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";

const SERVICES = [["db", "tcp"], ["shop", "http"], ["api", "http2"]] as const;
type Service = typeof SERVICES[number][0];

interface RollingDeployOptions {
  /** By flags alone, with `-register`; else from registrations that were made beforehand. */
  readonly register: boolean;
}

export function rollingDeploy(agents: Agents, { register }: RollingDeployOptions): void {
  const how = register ? "that register themselves" : "that are registered";
  test(`instances ${how} are restarted in turn under load, and callers lose nothing`, async () => {
    const turns = rounds("rounds of a rolling deploy", { few: 2, all: 10 });
    await using own = new AsyncDisposableStack();
    const mesh = own.use(await agents.start({ defaultIntentionPolicy: "allow" }));
    for (const [Name, Protocol] of SERVICES) {
      await mesh.configEntry({ Kind: "service-defaults", Name, Protocol });
    }
    const echo = own.use(await startEcho({ host: mesh.host }));
    const shop = own.use(await startCountingOrigin({ host: mesh.host }));
    const api = own.use(await startCountingOrigin({ protocol: "http2", host: mesh.host }));
    const apps: Record<Service, Place> = { db: echo, shop, api };
    const instances: Instance[] = [];
    for (const at of [1, 2]) {
      for (const [name] of SERVICES) {
        const instance = new Instance(mesh, { name, at, app: apps[name], register });
        instances.push(own.use(instance));
        await instance.prepare();
      }
    }
    await Promise.all(instances.map((instance) => instance.start()));
    const places = { db: await mesh.place(), shop: await mesh.place(), api: await mesh.place() };
    const upstreams = SERVICES.map(([name]) => ({ name, port: places[name].port }));
    const web = own.use(await mesh.serve({ name: "web", upstreams }));
    await waitForEcho(places.db);
    for (const place of [places.shop, places.api]) {
      await eventually("it is served", async () => {
        await using client = await RawClient.open(place);
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        return statusOf(await client.response()) === 200;
      });
    }

    const bytes = own.use(new Load(places.db, { longLived: 0, shortLived: 3 }));
    const kinds = { keptAlive: 2, shortLived: 1, http2: 1, pauseMs: 10 };
    const requests = [
      own.use(new HttpLoad(places.shop, shop.counts, kinds)),
      own.use(new HttpLoad(places.api, api.counts, kinds)),
    ];
    for (let turn = 0; turn < turns; turn++) {
      for (const at of [1, 2]) {
        await Promise.all(
          instances.filter((instance) => instance.at === at).map((one) => one.restart()),
        );
      }
    }
    const carried = await bytes.stop({ atLeast: 100 });
    const answered = await Promise.all(requests.map((load) => load.stop({ atLeast: 100 })));
    try {
      assertFlawless(carried, { atLeast: 100 });
      for (const result of answered) {
        const repeated = result.repeated.filter((path) => path.startsWith("/load/"));
        assertExactlyOnce({ ...result, repeated }, { atLeast: 100 });
      }
    } catch (error) {
      const said = web.output.split("\n").slice(-60).join("\n");
      throw new Error(`${error}\n--- web ---\n${said}`, { cause: error });
    }
    console.log(
      `${how}: ${turns} rounds, ${carried.exchanges} connections and ` +
        `${answered.map(({ exchanges }) => exchanges).join(" + ")} requests, 0 failed`,
    );
  });
}

interface InstanceOptions extends RollingDeployOptions {
  readonly name: Service;
  readonly at: number;
  readonly app: Place;
}

/** One of two sidecars of a service, which is started again and again. */
class Instance implements AsyncDisposable {
  readonly at: number;
  readonly #mesh: Mesh;
  readonly #options: InstanceOptions;
  #listen: Place | undefined;
  #postern: Postern | undefined;

  constructor(mesh: Mesh, options: InstanceOptions) {
    this.at = options.at;
    this.#mesh = mesh;
    this.#options = options;
  }

  get #id(): string {
    return `${this.#options.name}-${this.at}`;
  }

  async prepare(): Promise<void> {
    const { name, app: { port }, register } = this.#options;
    this.#listen = await this.#mesh.place();
    if (register) return;
    const sidecarPort = this.#listen.port;
    await this.#mesh.register({ name, id: this.#id, port, sidecarPort, defaultChecks: true });
  }

  async start(): Promise<void> {
    const { name, app, register } = this.#options;
    const listen = this.#listen;
    this.#postern = await ready(
      register && listen
        ? this.#mesh.runRegistering(this.#id, [
          ...["-service", name, "-service-addr", `${app.host}:${app.port}`],
          ...["-listen", `${listen.host}:${listen.port}`, "-register-id", `${this.at}`],
        ])
        : this.#mesh.runSidecar(this.#id, await this.#mesh.ownToken(name)),
    );
  }

  async restart(): Promise<void> {
    const stopped = await this.#postern?.stop();
    assert.equal(stopped?.code, 0);
    await this.#postern?.[Symbol.asyncDispose]();
    await this.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#postern?.[Symbol.asyncDispose]();
  }
}
