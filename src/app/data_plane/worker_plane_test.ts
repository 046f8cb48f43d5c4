import test from "node:test";
import assert from "node:assert/strict";
import { type Clock, createLog, type LogRecord, Stats, systemClock } from "../../base/mod.ts";
import type { ConnectionView } from "../../proxy/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { createAuthority } from "../../../test/kit/certificates.ts";
import { FakeClock } from "../../../test/kit/clock.ts";
import {
  EchoClient,
  expectRefused,
  type Place,
  startEcho,
  type TestServer,
  waitForEcho,
} from "../../../test/kit/echo.ts";
import { freePorts, loopbackHost } from "../../../test/kit/ports.ts";
import { eventually } from "../../../test/kit/process.ts";
import {
  intention,
  snapshotOf,
  targetOf,
  upstreamOf,
  withInbound,
} from "../../../test/kit/snapshots.ts";
import { LogRings } from "../log/log_rings.ts";
import type { DataPlane } from "./plane.ts";
import { Channel, type Port } from "./channel.ts";
import type { MainCalls, WorkerCalls } from "./protocol.ts";
import { createWorkerPlane } from "./worker_plane.ts";

const HELLO = new TextEncoder().encode("hello");

interface Rig extends AsyncDisposable {
  readonly plane: DataPlane;
  readonly snapshot: Snapshot;
  readonly upstream: Place;
  readonly lines: readonly LogRecord[];
  connections(): Promise<readonly ConnectionView[]>;
  /** Opens connections until each worker has one with both legs; by worker. */
  oneEach(): Promise<readonly EchoClient[]>;
  kill(worker: number): void;
  /** Stops the first worker's thread; resolves when it stands, with what lets it go on. */
  stick(): Promise<() => void>;
}

/** A service that calls itself through two workers. */
async function startRig(
  options: {
    readonly maxConnections?: number;
    readonly clock?: Clock;
    readonly workers?: number;
  } = {},
): Promise<Rig> {
  const host = loopbackHost();
  const app: TestServer = await startEcho({ host });
  const [inbound = 0, outbound = 0] = await freePorts(host, 2);
  const lines: LogRecord[] = [];
  const workers: Worker[] = [];
  const plane = createWorkerPlane({
    clock: options.clock ?? systemClock,
    log: createLog({
      clock: systemClock,
      holder: { level: "debug" },
      write: (record) => lines.push(record),
    }),
    workers: options.workers ?? 2,
    logJson: false,
    logLevel: "error",
    stats: new Stats(),
    logMemory: LogRings.create(3).memory,
    accessMemory: LogRings.create(2).memory,
    onLines: () => {},
    maxConnections: options.maxConnections ?? 1_000,
    idleTimeoutMs: 0,
    lifetimeMs: 0,
    remoteAuthorize: () => Promise.resolve({ allowed: false, reason: "nobody asks" }),
    fetchCertificate: () => Promise.resolve(false),
    createWorker: () => {
      const url = new URL("../../../test/kit/mortal_worker.ts", import.meta.url);
      const worker = new Worker(url, { type: "module" });
      workers.push(worker);
      return worker;
    },
  });
  const ca = createAuthority();
  const base = snapshotOf({
    ca,
    service: "web",
    local: { kind: "tcp", host, port: app.port },
    intentions: [intention("web", "allow")],
  });
  const snapshot = snapshotOf({
    ca,
    service: "web",
    upstreams: [{ name: "web", bind: { kind: "tcp", host, port: outbound } }],
    targets: [targetOf({ name: "web", uris: [base.credentials.uri], ports: [] })],
    overrides: {
      policy: base.policy,
      inbound: withInbound(base, { bind: { kind: "tcp", host, port: inbound } }).inbound,
    },
  });
  const endpoint = { id: "web-1", host, port: inbound, weight: 1 };
  const [target] = Object.values(snapshot.targets);
  assert.ok(target);
  const whole = { ...snapshot, targets: { [target.key]: { ...target, endpoints: [endpoint] } } };
  await plane.rollout.apply(whole);
  assert.equal(await plane.retryFailed(), true);
  const channel = new BroadcastChannel("postern-mortal-worker");
  const clients: EchoClient[] = [];
  const upstream = { host, port: outbound };
  const connections = async () => {
    const views = await plane.views({ connections: true });
    return views.flatMap((view) => view.connections);
  };
  return {
    plane,
    snapshot: whole,
    upstream,
    lines,
    connections,
    async oneEach() {
      const found: EchoClient[] = [];
      // The kernel deals them out by a hash of the ports: each leg by itself. One turn in four gives
      // what a worker needs, so that so many fail once in 10^15 times.
      for (let turn = 0; turn < 128 && !(found[0] && found[1]); turn++) {
        const before = await connections();
        const client = await EchoClient.open(upstream);
        clients.push(client);
        await client.exchange(HELLO);
        const legs = (await connections())
          .filter(({ id }) => !before.some((known) => known.id === id))
          .map(({ id }) => Number(id.split("-")[0]));
        const [worker = 0] = legs;
        if (legs.length === 2 && legs[1] === worker && !found[worker]) {
          found[worker] = client;
          continue;
        }
        client.destroy();
        await eventually("it is gone", async () => {
          return (await connections()).length === before.length;
        });
      }
      assert.ok(found[0] && found[1], "no two of 128 connections stayed within a worker each");
      return found;
    },
    kill: (worker) => channel.postMessage(worker),
    async stick() {
      const words = new Int32Array(new SharedArrayBuffer(8));
      workers[0]?.postMessage({ kind: "stick", words });
      await eventually("it stands", () => Atomics.load(words, 0) === 1);
      return () => {
        Atomics.store(words, 1, 1);
        Atomics.notify(words, 1);
      };
    },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.destroy();
      channel.close();
      plane.close();
      await app.close();
    },
  };
}

test("createWorkerPlane() serves from every worker, and replaces one that dies", async () => {
  await using rig = await startRig();
  const { plane } = rig;
  const [first, second] = await rig.oneEach();
  assert.ok(first && second);
  rig.kill(0);
  await first.over;
  await second.exchange(HELLO);
  const died = await eventually(
    "it is said",
    () => rig.lines.find(({ message }) => message.startsWith("data worker died")),
  );
  assert.equal(died.level, "error");
  assert.equal(died.fields.worker, 0);
  assert.match(String(died.fields.reason), /told to die/);
  await eventually("the new one has the whole snapshot", async () => {
    const views = await plane.views({ connections: false });
    return views.length === 2 &&
      views.every(({ listeners }) =>
        listeners.length === 2 && listeners.every(({ state }) => state === "listening")
      );
  });
  await second.exchange(HELLO);
  await waitForEcho(rig.upstream);
  const again = await rig.oneEach();
  await again[0]?.exchange(HELLO);
  await second.exchange(HELLO);
  await second.finish();
});

test("createWorkerPlane() gives back the places of a worker that died", async () => {
  // A connection takes two places here, one outbound and one inbound.
  await using rig = await startRig({ maxConnections: 8 });
  const [first, second] = await rig.oneEach();
  assert.ok(first && second);
  const more = [await EchoClient.open(rig.upstream), await EchoClient.open(rig.upstream)];
  for (const client of more) await client.exchange(HELLO);
  await expectRefused(rig.upstream);
  rig.kill(0);
  await first.over;
  await waitForEcho(rig.upstream);
  for (const client of more) client.destroy();
});

test("createWorkerPlane() takes back what upstreams that come and go were counted with", async () => {
  await using rig = await startRig({ maxConnections: 6 });
  const [first, second] = await rig.oneEach();
  assert.ok(first && second);
  for (let turn = 0; turn < 10; turn++) {
    const names = Array.from({ length: 250 }, (_, index) => `u${turn}-${index}`);
    const parts = names.map((name) => upstreamOf({ name }));
    const upstreams = Object.fromEntries(parts.map((part) => [part.id, part]));
    await rig.plane.rollout.apply({
      ...rig.snapshot,
      upstreams: { ...upstreams, ...rig.snapshot.upstreams },
    });
  }
  // Refused for want of an instance, by either worker.
  for (const { listeners } of await rig.plane.views({ connections: false })) {
    const [host, port] = listeners.at(-1)?.address.split(":") ?? [];
    await expectRefused({ host: host ?? "", port: Number(port) });
  }
  await rig.plane.rollout.apply(rig.snapshot);
  const third = await EchoClient.open(rig.upstream);
  await third.exchange(HELLO);
  await expectRefused(rig.upstream);
  await first.exchange(HELLO);
  await second.exchange(HELLO);
  assert.deepEqual(rig.lines.filter(({ level }) => level === "error"), []);
  third.destroy();
});

test("createWorkerPlane() applies what changed while a worker was dead", async () => {
  await using rig = await startRig();
  const [first] = await rig.oneEach();
  assert.ok(first);
  rig.kill(0);
  await first.over;
  await eventually("it is said", () => rig.lines.length > 0);
  const policy = { ...rig.snapshot.policy, version: -1, intentions: [] };
  await rig.plane.rollout.apply({ ...rig.snapshot, version: -1, policy });
  await eventually("both have the newest snapshot", async () => {
    const views = await rig.plane.views({ connections: false });
    return views.length === 2 && views.every(({ snapshotVersion }) => snapshotVersion === -1);
  });
  await eventually("nobody may any more", async () => {
    const views = await rig.plane.views({ connections: true });
    // Outbound halves stay for as long as their application keeps its own.
    return views.every(({ connections }) =>
      connections.every((one) => one.direction !== "inbound")
    );
  });
  await expectRefused(rig.upstream);
});

test("createWorkerPlane() says which worker is stuck, and that it answers again", async () => {
  const clock = new FakeClock();
  await using rig = await startRig({ clock, workers: 1 });
  assert.deepEqual(await rig.plane.stuck(), []);
  const goOn = await rig.stick();
  const first = rig.plane.stuck();
  await clock.advance(1_999);
  const later = rig.plane.stuck();
  await clock.advance(1);
  const want = ["data worker 0 has not answered for 2 s"];
  assert.deepEqual(await first, want);
  assert.deepEqual(await later, want, "the time runs from the first question");
  const atOnce = rig.plane.stuck();
  await clock.advance(0);
  assert.deepEqual(await atOnce, want, "what is known is said at once");
  goOn();
  await eventually("it answers again", async () => {
    const answer = rig.plane.stuck();
    await clock.advance(0);
    return (await answer).length === 0;
  });
});

/** A worker thread that runs when the test says so, and answers everything unless told otherwise. */
class FakeWorker implements Port {
  onmessage: Port["onmessage"] = null;
  onerror: ((event: { readonly message: string; preventDefault(): void }) => void) | null = null;
  readonly told: string[] = [];
  readonly main: Channel<MainCalls, WorkerCalls>;
  terminated = false;
  readonly #inside: Port = {
    onmessage: null,
    postMessage: (data) => this.onmessage?.({ data }),
  };

  constructor(answers: Partial<WorkerCalls> = {}) {
    const seen = <Name extends keyof WorkerCalls>(name: Name, otherwise: WorkerCalls[Name]) =>
      ((...given: never) => {
        this.told.push(name);
        return ((answers[name] ?? otherwise) as (...given: never) => unknown)(...given);
      }) as WorkerCalls[Name];
    this.main = new Channel<MainCalls, WorkerCalls>(this.#inside, {
      start: seen("start", () => {}),
      prepare: seen("prepare", () => Promise.resolve()),
      publish: seen("publish", () => Promise.resolve()),
      retryFailed: seen("retryFailed", () => Promise.resolve(true)),
      listeners: seen("listeners", () => []),
      view: seen("view", () => assert.fail("nobody looks")),
      beat: seen("beat", () => {}),
      drain: seen("drain", () => Promise.resolve()),
      logLevel: seen("logLevel", () => {}),
    });
  }

  postMessage(data: unknown): void {
    this.#inside.onmessage?.({ data });
  }

  runs(): void {
    this.main.tell("ready");
  }

  dies(message: string): void {
    this.onerror?.({ message, preventDefault() {} });
  }

  terminate(): void {
    this.terminated = true;
  }

  addEventListener(): void {}
}

function fakePlane(count: number, answers: Partial<WorkerCalls> = {}) {
  const clock = new FakeClock();
  const lines: LogRecord[] = [];
  const workers: FakeWorker[] = [];
  const plane = createWorkerPlane({
    clock,
    log: createLog({ clock, holder: { level: "info" }, write: (record) => lines.push(record) }),
    workers: count,
    logJson: false,
    logLevel: "error",
    stats: new Stats(),
    logMemory: LogRings.create(3).memory,
    accessMemory: LogRings.create(2).memory,
    onLines: () => {},
    maxConnections: 10,
    idleTimeoutMs: 0,
    lifetimeMs: 0,
    remoteAuthorize: () => Promise.resolve({ allowed: false, reason: "nobody asks" }),
    fetchCertificate: () => Promise.resolve(false),
    createWorker: () => {
      const worker = new FakeWorker(answers);
      workers.push(worker);
      return worker as unknown as Worker;
    },
  });
  return { clock, lines, workers, plane };
}

const SNAPSHOT = snapshotOf({ ca: createAuthority(), service: "web" });
const NEVER = new Promise<never>(() => {});

test("createWorkerPlane() gives up a worker that does not start, ever later", async () => {
  const { clock, lines, workers, plane } = fakePlane(1);
  const applied = plane.rollout.apply(SNAPSHOT);
  await clock.advance(9_999);
  assert.equal(workers.length, 1);
  await clock.advance(1);
  assert.equal(await plane.retryFailed(), false, "nothing is bound");
  assert.match(String(lines[0]?.fields.reason), /did not start within 10 s/);
  await clock.advance(200);
  assert.deepEqual(workers.map(({ terminated }) => terminated), [true, false]);
  await clock.advance(19_999);
  assert.equal(workers.length, 2);
  await clock.advance(1_000);
  const [first, , third] = workers;
  assert.ok(first && third);
  assert.match(String(lines[1]?.fields.reason), /did not start within 20 s/);
  first.runs();
  assert.deepEqual(third.told, [], "what was given up speaks for nobody");
  third.runs();
  await applied;
  assert.deepEqual(third.told, ["start", "prepare", "publish"]);
  assert.equal(await plane.retryFailed(), true);
  await clock.advance(3_600_000);
  assert.equal(workers.length, 3, "one that runs is left alone");
  plane.close();
  assert.ok(third.terminated);
});

for (const pending of ["prepare", "publish"] as const) {
  test(`createWorkerPlane() waits no longer for a ${pending} of a worker that died`, async () => {
    let asked = 0;
    const { clock, workers, plane } = fakePlane(2, {
      [pending]: () => asked++ === 0 ? NEVER : Promise.resolve(),
    });
    for (const worker of workers) worker.runs();
    const applied = plane.rollout.apply(SNAPSHOT);
    await clock.advance(0);
    workers[0]?.dies("out of memory");
    await applied;
    assert.equal(plane.rollout.published, SNAPSHOT);
    await clock.advance(200);
    const third = workers[2];
    third?.runs();
    await clock.advance(0);
    assert.deepEqual(third?.told, ["start", "prepare", "publish"], "it has what is in force");
  });
}

test("createWorkerPlane() drains no longer than its workers live, and replaces none then", async () => {
  const { clock, workers, plane } = fakePlane(1, { drain: () => NEVER });
  workers[0]?.runs();
  const drained = plane.drain(60_000);
  workers[0]?.dies("out of memory");
  await drained;
  await clock.advance(60_000);
  assert.equal(workers.length, 1);
});

test("createWorkerPlane() replaces a worker that cannot take what is in force", async () => {
  let refuses = false;
  const { clock, lines, workers, plane } = fakePlane(2, {
    prepare: () => refuses ? Promise.reject(new Error("no room")) : Promise.resolve(),
  });
  for (const worker of workers) worker.runs();
  await plane.rollout.apply(SNAPSHOT);
  refuses = true;
  workers[1]?.dies("out of memory");
  await clock.advance(200);
  workers[2]?.runs();
  await clock.advance(0);
  assert.equal(workers[2]?.terminated, true);
  assert.match(String(lines.at(-1)?.fields.reason), /refuses the snapshot in force: no room/);
  refuses = false;
  await clock.advance(400);
  workers[3]?.runs();
  await clock.advance(0);
  assert.deepEqual(workers[3]?.told, ["start", "prepare", "publish"]);
  assert.deepEqual(workers[0]?.told, ["start", "prepare", "publish"], "it serves on");
});

test("createWorkerPlane() refuses a snapshot whole, and says why", async () => {
  await using rig = await startRig();
  const { plane, snapshot } = rig;
  const credentials = { ...snapshot.credentials, version: -1, keyPem: "no key" };
  await plane.rollout.apply({ ...snapshot, version: -1, credentials } as Snapshot);
  assert.equal(plane.rollout.published, snapshot);
  const reason = plane.rollout.refused[0]?.reason ?? "";
  assert.match(reason, /^Cannot use the credentials of the mesh: the key cannot be read/);
  const refused = rig.lines.filter(({ level }) => level === "error");
  assert.deepEqual(refused.map(({ message, fields }) => [message, fields.reason]), [
    ["snapshot refused, the old one serves on", reason],
  ]);
  for (const { snapshotVersion } of await plane.views({ connections: false })) {
    assert.equal(snapshotVersion, snapshot.version);
  }
  const client = await EchoClient.open(rig.upstream);
  await client.exchange(HELLO);
  client.destroy();
  await plane.rollout.apply({ ...snapshot, version: -2 });
  assert.deepEqual(plane.rollout.refused, []);
});
