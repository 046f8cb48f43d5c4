import test from "node:test";
import assert from "node:assert/strict";
import { createLog, type LogRecord, Stats } from "../../base/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import {
  type HeldPlugin,
  type HookMark,
  HookMarks,
  IN,
  type MarkedPlugin,
} from "../../plugin/mod.ts";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { EchoClient, expectRefused, waitForEcho } from "../../../test/kit/wire/echo.ts";
import { eventually } from "../../../test/kit/process/process.ts";
import { snapshotOf, upstreamOf } from "../../../test/kit/engine/snapshots.ts";
import { HELLO, startWorkerRig } from "../../../test/kit/engine/worker_rig.ts";
import { LogRings } from "../log/log_rings.ts";
import { Channel, type MainCalls, type Port, type WorkerCalls } from "./channel.ts";
import { createWorkerPlane } from "./data_worker.ts";

test("createWorkerPlane() serves from every worker and replaces one that dies", async () => {
  await using rig = await startWorkerRig();
  const { plane } = rig;
  const [first, second] = await rig.oneEach();
  assert.ok(first && second);
  rig.kill(0);
  await first.over;
  await second.exchange(HELLO);
  const died = await eventually(
    "it is logged",
    () => rig.lines.find(({ message }) => message.startsWith("data worker died")),
  );
  assert.equal(died.level, "error");
  // The inbound and the outbound connection of one caller.
  assert.deepEqual([died.fields.worker, died.fields.connections], [0, 2]);
  assert.match(String(died.fields.reason), /killed by the test/);
  await eventually("the new one has the whole snapshot", async () => {
    const views = await plane.views({ connections: false });
    return views.length === 2 &&
      views.every(({ listeners }) =>
        listeners.length === 2 && listeners.every(({ state }) => state === "listening")
      );
  });
  const events = rig.events.map(({ text, effect = "" }) => `${text}: ${effect}`).join("\n");
  assert.match(
    events,
    /^data worker 0 died: .*killed by the test: 2 connections ended\n.* 0 was replaced after \ds: $/,
  );
  await second.exchange(HELLO);
  await waitForEcho(rig.upstream);
  const again = await rig.oneEach();
  await again[0]?.exchange(HELLO);
  await second.exchange(HELLO);
  await second.finish();
});

test("createWorkerPlane() subtracts the connections of a dead worker from the limit", async () => {
  // Each connection counts twice, outbound and inbound.
  await using rig = await startWorkerRig({ maxConnections: 8 });
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

test("createWorkerPlane() frees the columns of removed upstreams and keeps the counts of others", async () => {
  await using rig = await startWorkerRig({ maxConnections: 6 });
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
  // Refused without an instance, by either worker.
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

test("createWorkerPlane() gives a replaced worker the snapshot that was applied meanwhile", async () => {
  await using rig = await startWorkerRig();
  const [first] = await rig.oneEach();
  assert.ok(first);
  rig.kill(0);
  await first.over;
  await eventually("it is logged", () => rig.lines.length > 0);
  const policy = { ...rig.snapshot.policy, version: -1, intentions: [] };
  await rig.plane.rollout.apply({ ...rig.snapshot, version: -1, policy });
  await eventually("both have the newest snapshot", async () => {
    const views = await rig.plane.views({ connections: false });
    return views.length === 2 && views.every(({ snapshotVersion }) => snapshotVersion === -1);
  });
  await eventually("the old intention is no longer in force", async () => {
    const views = await rig.plane.views({ connections: true });
    // Outbound connections stay open until their application closes them.
    return views.every(({ connections }) =>
      connections.every((one) => one.direction !== "inbound")
    );
  });
  await expectRefused(rig.upstream);
});

test("createWorkerPlane() reports a stuck worker until it answers again", async () => {
  const clock = new FakeClock();
  await using rig = await startWorkerRig({ clock, workers: 1 });
  assert.deepEqual(await rig.plane.stuck(), []);
  const goOn = await rig.stick();
  const first = rig.plane.stuck();
  await clock.advance(1_999);
  const later = rig.plane.stuck();
  await clock.advance(1);
  const want = ["data worker 0 has not answered for 2 s"];
  assert.deepEqual(await first, want);
  assert.deepEqual(await later, want, "the time runs from the first call");
  const atOnce = rig.plane.stuck();
  await clock.advance(0);
  assert.deepEqual(await atOnce, want, "a known state is reported at once");
  goOn();
  await eventually("it answers again", async () => {
    const answer = rig.plane.stuck();
    await clock.advance(0);
    return (await answer).length === 0;
  });
});

/** A worker thread that starts and dies as the test says, and answers every call unless given another answer. */
class FakeWorker implements Port {
  onmessage: Port["onmessage"] = null;
  onerror: ((event: { readonly message: string; preventDefault(): void }) => void) | null = null;
  readonly calls: string[] = [];
  readonly main: Channel<MainCalls, WorkerCalls>;
  terminated = false;
  readonly #inside: Port = {
    onmessage: null,
    postMessage: (data) => this.onmessage?.({ data }),
  };

  constructor(answers: Partial<WorkerCalls> = {}) {
    const seen = <Name extends keyof WorkerCalls>(name: Name, otherwise: WorkerCalls[Name]) =>
      ((...given: never) => {
        this.calls.push(name);
        return ((answers[name] ?? otherwise) as (...given: never) => unknown)(...given);
      }) as WorkerCalls[Name];
    this.main = new Channel<MainCalls, WorkerCalls>(this.#inside, {
      start: seen("start", () => {}),
      prepare: seen("prepare", () => Promise.resolve()),
      publish: seen("publish", () => Promise.resolve([])),
      abandon: () => {},
      retryFailed: seen("retryFailed", () => Promise.resolve(true)),
      listeners: seen("listeners", () => []),
      view: seen("view", () => assert.fail("view() is not called")),
      used: seen("used", () => []),
      explain: seen("explain", () => Promise.resolve(undefined)),
      setTaps: seen("setTaps", () => {}),
      beat: seen("beat", () => 0),
      setHeld: seen("setHeld", () => {}),
      drainInbound: seen("drainInbound", () => {}),
      spawn: seen("spawn", () => Promise.resolve(1)),
      accept: seen("accept", () => {}),
      resume: seen("resume", () => {}),
      sockets: seen("sockets", () => []),
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

  /** Called when the thread has ended. */
  onClose = () => {};
  addEventListener(_: string, onClose: () => void): void {
    this.onClose = onClose;
  }
}

function fakePlane(
  count: number,
  answers: Partial<WorkerCalls> = {},
  options: { readonly endsThreads?: boolean } = {},
) {
  const clock = new FakeClock();
  const firstUses: string[] = [];
  const lines: LogRecord[] = [];
  const workers: FakeWorker[] = [];
  const stats = new Stats();
  const plane = createWorkerPlane({
    ...options,
    clock,
    log: createLog({ clock, holder: { level: "info" }, write: (record) => lines.push(record) }),
    workers: count,
    logJson: false,
    logLevel: "error",
    stats,
    logMemory: LogRings.create(3).memory,
    accessMemory: LogRings.create(2).memory,
    onLines: () => {},
    maxConnections: 10,
    idleTimeoutMs: 0,
    lifetimeMs: 0,
    remoteAuthorize: () => Promise.resolve({ allowed: false, reason: "there is no agent" }),
    sendTelemetry: () => Promise.resolve(),
    fetchCertificate: () => Promise.resolve(false),
    onFirstUse: (upstreamId) => void firstUses.push(upstreamId),
    createWorker: () => {
      const worker = new FakeWorker(answers);
      workers.push(worker);
      return worker as unknown as Worker;
    },
  });
  return { clock, lines, workers, plane, firstUses, stats };
}

const SNAPSHOT = snapshotOf({ ca: createAuthority(), service: "web" });
const NEVER = new Promise<never>(() => {});

test("createWorkerPlane() gives up a worker that does not start, with a limit that doubles", async () => {
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
  assert.deepEqual(third.calls, [], "the late start of a given up thread changes nothing");
  third.runs();
  await applied;
  assert.deepEqual(third.calls, ["start", "prepare", "publish"]);
  assert.equal(await plane.retryFailed(), true);
  await clock.advance(3_600_000);
  assert.equal(workers.length, 3, "one that runs is left alone");
  plane.close();
  assert.ok(third.terminated);
});

for (const pending of ["prepare", "publish"] as const) {
  test(`createWorkerPlane() does not wait for ${pending}() of a dead worker`, async () => {
    let calls = 0;
    const { clock, workers, plane } = fakePlane(2, {
      [pending]: () => calls++ === 0 ? NEVER : Promise.resolve(),
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
    assert.deepEqual(third?.calls, ["start", "prepare", "publish"], "it has the snapshot in force");
  });
}

test("createWorkerPlane() reports the first use of an upstream at once, and the used ones of every worker", async () => {
  const { plane, workers, firstUses } = fakePlane(2, { used: () => ["db"] });
  for (const worker of workers) worker.runs();
  workers[1]?.main.tell("firstUse", "api");
  assert.deepEqual(firstUses, ["api"]);
  assert.deepEqual(await plane.used(), [["db"], ["db"]]);
  plane.close();
});

test("createWorkerPlane() ends a drain when its workers have died, and replaces none", async () => {
  const { clock, workers, plane } = fakePlane(1, { drain: () => NEVER });
  workers[0]?.runs();
  const drained = plane.drain(60_000);
  workers[0]?.dies("out of memory");
  await drained;
  await clock.advance(60_000);
  assert.equal(workers.length, 1);
});

test("createWorkerPlane() replaces a worker that refuses the snapshot in force", async () => {
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
  assert.deepEqual(workers[3]?.calls, ["start", "prepare", "publish"]);
  assert.deepEqual(workers[0]?.calls, ["start", "prepare", "publish"], "it serves on");
});

const LOOPS: MarkedPlugin = {
  plugin: "loops",
  listener: "db",
  onFailure: "skip",
  at: "plugins[0]",
  key: "loops",
};
const WITH_PLUGIN: Snapshot = {
  ...SNAPSHOT,
  version: -1,
  pluginCode: { a: { version: -1, text: "", path: "/a.ts", map: "", libraries: [] } },
};

/** Two workers with one plugin, which does not come back from creation while `holds` is set. */
async function heldPlane(endsThreads: boolean) {
  const held: (readonly HeldPlugin[])[] = [];
  const marks: HookMark[] = [];
  let holds = false;
  const heap = { bytes: 0 };
  const fake = fakePlane(2, {
    beat: () => heap.bytes,
    setHeld: (list) => void held.push(list),
    start(given) {
      const worker = fake.workers[marks.length];
      const own = new HookMarks(given.marks, (id, plugin) => {
        worker?.main.tell("marked", id, plugin);
      });
      marks.push(own.open(LOOPS));
      held.push(given.held);
    },
    prepare() {
      if (!holds) return Promise.resolve();
      const asked = fake.workers.findIndex(({ calls }) => calls.at(-1) === "prepare");
      marks[asked]?.enter(IN.create);
      return NEVER;
    },
  }, { endsThreads });
  for (const worker of fake.workers) worker.runs();
  await fake.plane.rollout.apply(SNAPSHOT);
  const loops = async () => {
    holds = true;
    const applied = fake.plane.rollout.apply(WITH_PLUGIN);
    await fake.clock.advance(2_500);
    await applied;
    holds = false;
  };
  const ends = async () => {
    holds = true;
    const applied = fake.plane.rollout.apply(WITH_PLUGIN);
    await fake.clock.advance(0);
    fake.workers.find(({ calls }) => calls.at(-1) === "prepare")?.onClose();
    await applied;
    holds = false;
  };
  return { ...fake, held, heap, loops, ends };
}

const HELD =
  /^Cannot use the snapshot: .*plugin loops of db \(plugins\[0\]\) held it in create for 2 s$/;

test("createWorkerPlane() ends a worker that a plugin holds, and refuses what would create it", async () => {
  const { clock, lines, workers, plane, stats, held, loops } = await heldPlane(true);
  await loops();
  assert.match(plane.rollout.refused[0]?.reason ?? "", HELD);
  assert.deepEqual(workers.map(({ terminated }) => terminated), [true, false, false]);
  const calls = workers[1]?.calls.filter((call) => call !== "beat");
  assert.deepEqual(calls, ["start", "prepare", "publish", "setHeld"], "it serves on");
  const died = lines.find(({ message }) => message.startsWith("data worker died"));
  assert.match(String(died?.fields.reason), /plugin loops of db/);
  workers[2]?.runs();
  await clock.advance(0);
  assert.deepEqual(workers[2]?.calls, ["start", "prepare", "publish"], "it has what is in force");
  assert.deepEqual(held.at(-1)?.map(({ barred }) => barred), ["none"]);
  await loops();
  assert.deepEqual(held.at(-1)?.map(({ barred }) => barred), ["create"]);
  assert.ok(lines.some(({ message }) => message.startsWith("plugin is not called any more")));
  const count = stats.samples().find(({ name }) => name === "plugin_held_worker_total");
  assert.deepEqual([count?.value, count?.labels], [2, { plugin: "loops", listener: "db" }]);
  plane.close();
});

test("createWorkerPlane() refuses a plugin that ends the worker in which it is created", async () => {
  const { lines, workers, plane, ends } = await heldPlane(true);
  await ends();
  const [refused] = plane.rollout.refused;
  const reason = "plugin loops of db (plugins[0]) ended it in create, as process.exit does";
  assert.equal(refused?.reason, `Cannot use the snapshot: data worker 0: ${reason}`);
  const died = lines.find(({ message }) => message.startsWith("data worker died"));
  assert.equal(died?.fields.reason, reason);
  assert.ok(!workers[1]?.calls.slice(3).includes("prepare"), "the other worker serves on");
  plane.close();
});

test("createWorkerPlane() reports a large heap of a worker with plugins from files, and its end", async () => {
  const { clock, lines, plane, heap } = await heldPlane(true);
  heap.bytes = 600 * 1024 * 1024;
  await plane.stuck();
  await plane.stuck();
  heap.bytes = 400 * 1024 * 1024;
  await plane.stuck();
  heap.bytes = 300 * 1024 * 1024;
  await plane.stuck();
  await clock.advance(0);
  const seen = lines.filter(({ message }) => message.startsWith("heap of data worker 0"));
  assert.deepEqual(seen.map(({ level, fields }) => [level, fields.megabytes, fields.plugins]), [
    ["error", 600, "loops of db"],
    ["info", 300, "loops of db"],
  ]);
  plane.close();
});

test("createWorkerPlane() passes over a held worker that cannot be ended, until it answers", async () => {
  const { clock, lines, workers, plane, loops } = await heldPlane(false);
  await loops();
  assert.match(plane.rollout.refused[0]?.reason ?? "", HELD);
  assert.deepEqual(workers.map(({ terminated }) => terminated), [false, false]);
  assert.ok(lines.some(({ message }) => /cannot be ended: restart the proxy/.test(message)));
  await plane.rollout.apply({ ...SNAPSHOT, version: -2 });
  assert.deepEqual(plane.rollout.refused, []);
  assert.equal(await plane.retryFailed(), true, "by the worker that answers");
  await clock.advance(0);
  plane.close();
});

test("createWorkerPlane() refuses a snapshot in all workers and logs the reason", async () => {
  await using rig = await startWorkerRig();
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
