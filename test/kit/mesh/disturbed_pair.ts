/**
 * A pair of sidecars beside real servers that are disturbed: connections that stay and new ones must not
 * notice, one caller must never be let in, and another one is refused and let in by intentions that are
 * written afterwards.
 *
 * @module
 */

import assert from "node:assert/strict";
import { connect, type TLSSocket } from "node:tls";
import { type Cluster, type ClusterOptions, startCluster } from "./cluster.ts";
import { type Place, waitForEcho } from "../wire/echo.ts";
import { assertExactlyOnce, HttpLoad } from "../wire/http_load.ts";
import { startCountingOrigin } from "../wire/http_origin.ts";
import { RawClient, statusOf } from "../wire/http_raw.ts";
import { Load } from "../wire/load.ts";
import { type MeshPair, type MeshPairOptions, startMeshPair } from "./mesh_pair.ts";
import { deadline, eventually, pause } from "../process/process.ts";
import { type AgentLeaf, type ProbeOptions, probeTls, readLeaf } from "../wire/tls_probe.ts";

/** Longer than an election takes, and a proxy to find another server, on a busy machine. */
const CONTROL_TIMEOUT_MS = 20_000;

interface DisturbedPair extends AsyncDisposable {
  readonly cluster: Cluster;
  /** web calls db. */
  readonly pair: MeshPair;
  /** web calls shop by HTTP, all the time. */
  readonly calls: HttpLoad;
  /**
   * The certificates of a caller that no intention lets in, and of a caller whose intention changes.
   */
  readonly stranger: AgentLeaf;
  readonly guest: AgentLeaf;
}

/** Three servers with ACLs and TLS, and web that calls db and shop. */
export async function startDisturbedPair(
  options: MeshPairOptions<Cluster> & { readonly cluster?: ClusterOptions } = {},
): Promise<DisturbedPair> {
  await using own = new AsyncDisposableStack();
  const cluster = own.use(
    await startCluster({ servers: 3, acl: true, tls: true, ...options.cluster }),
  );
  await cluster.intention("guest", "db", "allow");
  await cluster.intention("stranger", "db", "deny");
  const pair = own.use(await startMeshPair(cluster, options));
  await waitForEcho(pair.upstream);
  const calls = await callShop(cluster, { pair, own });
  const stranger = await readLeaf(cluster, "stranger");
  const guest = await readLeaf(cluster, "guest");
  const stack = own.move();
  return {
    cluster,
    pair,
    calls,
    stranger,
    guest,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** web gets another upstream, which speaks HTTP. */
async function callShop(
  cluster: Cluster,
  { pair, own }: { readonly pair: MeshPair; readonly own: AsyncDisposableStack },
): Promise<HttpLoad> {
  const shop = await cluster.place();
  await cluster.configEntry({ Kind: "service-defaults", Name: "shop", Protocol: "http" });
  await cluster.intention("web", "shop", "allow");
  const origin = own.use(await startCountingOrigin({ host: cluster.host }));
  own.use(await cluster.serve({ name: "shop", port: origin.port }));
  await cluster.register({
    name: "web",
    sidecarPort: pair.webPublic.port,
    upstreams: [{ name: "db", port: pair.upstream.port }, { name: "shop", port: shop.port }],
  });
  await eventually("shop answers", async () => {
    await using client = await RawClient.open(shop);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    return statusOf(await client.response()) === 200;
  });
  const kinds = { keptAlive: 2, shortLived: 0, http2: 1 };
  return own.use(new HttpLoad(shop, origin.counts, { ...kinds, pauseMs: 20 }));
}

interface Event {
  readonly what: string;
  /** The public listener that is tried; db's if absent. */
  readonly at?: Place;
}

/**
 * Asserts that connections which need nothing new do not notice `happen`, that it lets no caller in, and
 * that an intention written afterwards is obeyed. Prints the times.
 */
export async function withstands(
  on: DisturbedPair,
  { what, at = on.pair.public }: Event,
  happen: () => Promise<void>,
): Promise<void> {
  const { pair, cluster, calls } = on;
  await using load = new Load(pair.upstream, { longLived: 3, shortLived: 3, pauseMs: 20 });
  const before = calls.result.exchanges;
  await using refusedCaller = new RefusedCaller(at, on.stranger);
  const revoked = await openTls(at, on.guest);
  const began = performance.now();
  await happen();
  const eventMs = performance.now() - began;
  await write(() => cluster.intention("guest", "db", "deny"));
  const deniedMs = performance.now();
  const over = await deadline(revoked.over, CONTROL_TIMEOUT_MS);
  assert.ok(over !== undefined, `${what}: an intention that was revoked afterwards is ignored`);
  await write(() => cluster.intention("guest", "db", "allow"));
  const allowedMs = performance.now();
  await eventually(`${what}: an intention that was written afterwards lets in`, async () => {
    return (await probeTls(at, shown(on.guest))).accepted;
  }, { timeoutMs: CONTROL_TIMEOUT_MS });
  const openedMs = performance.now() - allowedMs;
  const result = await load.stop({ atLeast: 300 });
  pair.expectFlawless(result, { atLeast: 300 });
  const wanted = before + 100;
  await calls.past(wanted);
  assertExactlyOnce(calls.result, { atLeast: wanted });
  const tried = await refusedCaller.end();
  console.log(
    `${what}: ${result.exchanges} exchanges on ${result.connections} connections and ` +
      `${calls.result.exchanges - before} requests, none lost; ` +
      `${tried} tries of a stranger, none let in; event ${seconds(eventMs)}, ` +
      `closed ${seconds(over - deniedMs)} after the deny, open ${
        seconds(openedMs)
      } after the allow`,
  );
}

/** Repeats a write until there is a leader that takes it. */
async function write(how: () => Promise<void>): Promise<void> {
  await eventually("a leader takes a write", async () => {
    await how();
    return true;
  }, { timeoutMs: CONTROL_TIMEOUT_MS, everyMs: 100 });
}

/** A caller that tries to get in all the time. */
class RefusedCaller implements AsyncDisposable {
  #tried = 0;
  #accepted = 0;
  #stopping = false;
  readonly #running: Promise<void>;

  constructor(place: Place, leaf: AgentLeaf) {
    this.#running = this.#run(place, leaf);
  }

  /** How often it tried; fails if it ever got in. */
  async end(): Promise<number> {
    this.#stopping = true;
    await this.#running;
    assert.equal(
      this.#accepted,
      0,
      `a stranger was let in ${this.#accepted} of ${this.#tried} times`,
    );
    assert.ok(this.#tried > 0, "a stranger never tried");
    return this.#tried;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping = true;
    await this.#running;
  }

  async #run(place: Place, leaf: AgentLeaf): Promise<void> {
    while (!this.#stopping) {
      const outcome = await probeTls(place, shown(leaf));
      this.#tried++;
      if (outcome.accepted) this.#accepted++;
      await pause(25);
    }
  }
}

/** A connection that the other side has answered on; `over` resolves with the time when it ended that. */
async function openTls(
  place: Place,
  leaf: AgentLeaf,
): Promise<{ readonly over: Promise<number> }> {
  const socket = await new Promise<TLSSocket>((resolve, reject) => {
    const opening = connect({ ...place, ...shown(leaf), rejectUnauthorized: false }, () => {
      opening.write("?");
    });
    opening.setTimeout(15_000, () => opening.destroy(new Error("No answer within 15 s")));
    opening.once("error", reject);
    opening.once("data", () => {
      opening.setTimeout(0);
      opening.off("error", reject);
      resolve(opening);
    });
  });
  return {
    over: new Promise((resolve) => {
      const end = () => {
        socket.destroy();
        resolve(performance.now());
      };
      socket.on("error", end).on("end", end).on("close", end);
    }),
  };
}

function shown({ CertPEM, PrivateKeyPEM }: AgentLeaf): ProbeOptions {
  return { cert: CertPEM, key: PrivateKeyPEM };
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
