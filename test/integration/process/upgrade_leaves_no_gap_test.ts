/** While a process takes over, nobody who watches the proxy from outside sees it away. @module */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { handsOver, type Postern, ready } from "../../kit/process/postern.ts";
import { pause } from "../../kit/process/process.ts";
import type { Place } from "../../kit/wire/echo.ts";

const TIMEOUT = { timeoutMs: 60_000 };
const EVERY_MS = 15;

/** Asks again and again, until it is stopped; then the answers that were not as wanted, with the number of all. */
class Watch {
  readonly #faults = new Set<string>();
  readonly #running: Promise<void>;
  #count = 0;
  #stopping = false;

  constructor(ask: () => Promise<string>, want: string) {
    this.#running = (async () => {
      while (!this.#stopping) {
        const answer = await ask().catch((error) => String(error));
        if (answer !== want) this.#faults.add(answer);
        this.#count++;
        await pause(EVERY_MS);
      }
    })();
  }

  async stop(): Promise<readonly string[]> {
    this.#stopping = true;
    await this.#running;
    return this.#count < 20 ? [`only ${this.#count} answers`] : [...this.#faults];
  }
}

/** Each request on a connection of its own. */
function statusOf({ host, port }: Place, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ host, port, path, agent: false, timeout: 10_000 }, (reply) => {
      reply.resume();
      reply.on("end", () => resolve(String(reply.statusCode)));
    });
    sent.on("timeout", () => sent.destroy(new Error("no answer")));
    sent.on("error", reject);
    sent.end();
  });
}

function roundTrip(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect({ path, allowHalfOpen: true });
    socket.setEncoding("utf8").on("data", (chunk: string) => answer += chunk);
    socket.setTimeout(10_000, () => socket.destroy(new Error("no answer")));
    socket.on("error", reject);
    socket.on("end", () => {
      socket.destroy();
      resolve(answer);
    });
    socket.end("hello");
  });
}

test("registration, checks, admin server, metrics and unix sockets go on while processes take over", async () => {
  await using mesh = await DevMesh.start({ defaultIntentionPolicy: "allow" });
  const directory = await mkdtemp(join(tmpdir(), "postern-upgrade-"));
  await using own = new AsyncDisposableStack();
  own.defer(() => rm(directory, { recursive: true, force: true }));
  const app = own.use(await mesh.echo());
  const [listen, publicPlace] = [await mesh.place(), await mesh.place()];
  const [metrics, admin] = [await mesh.place(), await mesh.place()];
  const upstream = join(directory, "db.sock");
  await mesh.put("/v1/agent/service/register", {
    Name: "web",
    ID: "web-1",
    Connect: {
      SidecarService: {
        Port: publicPlace.port,
        Proxy: {
          Config: { envoy_prometheus_bind_addr: `${metrics.host}:${metrics.port}` },
          Upstreams: [{ DestinationName: "db", LocalBindSocketPath: upstream }],
        },
      },
    },
  });
  const words = {
    web: ["-sidecar-for", "web-1", "-admin-bind", `${admin.host}:${admin.port}`],
    db: [
      ...["-service", "db", "-service-addr", `${app.host}:${app.port}`, "-admin-bind", "off"],
      ...["-listen", `${listen.host}:${listen.port}`, "-register", "-register-id", "x1"],
    ],
  };
  const start = (name: "web" | "db"): Postern => own.use(mesh.run(["proxy", ...words[name]]));
  const [db, web] = [start("db"), start("web")];
  await db.process.waitFor(/ ready /, TIMEOUT);
  await ready(web);
  if (!handsOver(web)) return;
  while (await roundTrip(upstream).catch(() => "") !== "hello") await pause(EVERY_MS);
  while (await statusOf(metrics, "/metrics").catch(() => "") !== "200") await pause(EVERY_MS);
  const passing = async () => {
    const path = "/v1/health/connect/db?passing";
    const found = await mesh.get<readonly { readonly Service: { ID: string } }[]>(path);
    return found.map(({ Service }) => Service.ID).join(" ");
  };
  while (await passing() !== "db-proxy-x1") await pause(EVERY_MS);
  const watches = {
    registration: new Watch(passing, "db-proxy-x1"),
    "admin server": new Watch(() => statusOf(admin, "/ready"), "200"),
    metrics: new Watch(() => statusOf(metrics, "/metrics"), "200"),
    "unix socket": new Watch(() => roundTrip(upstream), "hello"),
  };
  for (const [name, before] of [["db", db], ["web", web]] as const) {
    before.expectEnd();
    const next = start(name);
    const waiting = own.use(mesh.run(["wait-ready", "-admin", `${admin.host}:${admin.port}`]));
    waiting.expectEnd();
    await next.process.waitFor(/ ready /, TIMEOUT);
    assert.deepEqual(await waiting.process.waitExit(TIMEOUT), { code: 0, signal: null });
    assert.deepEqual(await before.process.waitExit(TIMEOUT), { code: 0, signal: null });
  }
  for (const [what, watch] of Object.entries(watches)) {
    assert.deepEqual(await watch.stop(), [], what);
  }
});
