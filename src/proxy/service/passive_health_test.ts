import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import type { End } from "../../../test/kit/engine/memory_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { httpRules, snapshotOf, targetOf } from "../../../test/kit/engine/snapshots.ts";
import { type OutlierPolicy, outlierPolicy } from "../../balance/mod.ts";
import { seededRandom } from "../../base/mod.ts";

const CA = createAuthority();
const DB = CA.issueLeaf({ service: "db" });

/** Longer than the pause of a retry. */
const PAUSE_MS = 100;

interface RigOptions {
  /** Ports of each target, in failover order. */
  readonly targets: readonly (readonly number[])[];
  readonly policy?: Partial<OutlierPolicy>;
  readonly retry?: Readonly<Record<string, unknown>>;
}

/** The response of an instance to a request, by its port. */
type Answers = (port: number) => number | "refuses" | "breaks" | "silent";

/** A sidecar of web, and instances of db that answer by `answers`. */
class Rig implements AsyncDisposable {
  readonly path: MemoryPath;
  answers: Answers = () => 200;
  /** Ports that received a request, in order; negative: the connection was refused. */
  tried: number[] = [];
  readonly #servers = new Map<End, number>();
  #dials = 0;

  constructor(path: MemoryPath) {
    this.path = path;
  }

  static async start({ targets, policy = {}, retry }: RigOptions): Promise<Rig> {
    const names = targets.map((_, index) => `target-${index}`);
    const plugins = retry
      ? [{ plugin: "retry", config: retry, onFailure: "refuse" as const, at: "upstreams.db" }]
      : [];
    const snapshot = snapshotOf({
      ca: CA,
      service: "web",
      upstreams: [{
        name: "db",
        http: httpRules("http", { requestTimeoutMs: 500 }),
        plugins,
        targets: names,
        outlier: outlierPolicy(policy),
        // Round robin would avoid the failed instance by itself; with `random` only the retry does.
        balancing: { kind: retry ? "random" : "round_robin" },
      }],
      targets: targets.map((ports, index) =>
        targetOf({ name: `target-${index}`, uris: [DB.uri], ports })
      ),
    });
    return new Rig(await startMemoryPath(snapshot, { random: seededRandom(7) }));
  }

  /** Sends one request; resolves to the status that the caller received. */
  async ask(): Promise<number> {
    const { path } = this;
    const caller = path.engine.call(path.port("db"));
    caller.send("GET / HTTP/1.1\r\nHost: db\r\nConnection: close\r\n\r\n");
    for (let round = 0; caller.received === "" && round < 20; round++) {
      await settle();
      const { dials } = path.engine;
      if (this.#dials === dials.length && !this.#answer()) await path.clock.advance(PAUSE_MS);
      while (this.#dials < dials.length) this.#connect(this.#dials++);
    }
    caller.connection.close();
    await settle();
    return Number(/^HTTP\/1\.1 (\d+) /.exec(caller.received)?.[1]);
  }

  async askTimes(times: number): Promise<readonly number[]> {
    const statuses = [];
    for (let time = 0; time < times; time++) statuses.push(await this.ask());
    return statuses;
  }

  #connect(index: number): void {
    const dial = this.path.engine.dials[index];
    assert.ok(dial?.options.address.kind === "tcp");
    const { port } = dial.options.address;
    if (this.answers(port) !== "refuses") {
      this.#servers.set(dial.connect(presented(DB)), port);
      return;
    }
    this.tried.push(-port);
    dial.fail();
  }

  /** False: no instance had a request. */
  #answer(): boolean {
    const waiting = [...this.#servers].filter(([{ received }]) => received !== "");
    for (const [server, port] of waiting) {
      server.received = "";
      this.tried.push(port);
      const answer = this.answers(port);
      if (answer === "silent") continue;
      if (answer === "breaks") server.connection.reset();
      else server.send(`HTTP/1.1 ${answer} X\r\nContent-Length: 0\r\n\r\n`);
    }
    return waiting.length > 0;
  }

  /** Ports of ejected instances. */
  get ejected(): readonly number[] {
    const { endpoints } = this.path.path.view({ connections: false });
    return endpoints.filter(({ ejectedForMs }) => ejectedForMs > 0)
      .map(({ address }) => Number(address.split(":").at(-1))).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.path[Symbol.asyncDispose]();
  }
}

const ALL = { maxFailures: 1, maxEjectionPercent: 100, baseEjectionMs: 30_000 };
const failing = (...ports: readonly number[]): Answers => (port) =>
  ports.includes(port) ? 503 : 200;
const refusing = (...ports: readonly number[]): Answers => (port) =>
  ports.includes(port) ? "refuses" : 200;

for (
  const [what, statuses, policy, ejects] of [
    ["fails five times in a row", [500, 503, 502, 504, 500], {}, true],
    ["fails four times", [500, 500, 500, 500], {}, false],
    ["succeeds once in between", [500, 500, 500, 500, 200, 500], {}, false],
    ["answers with client errors", [404, 429, 400, 401, 499], {}, false],
    ["reaches the limit of failures", [500, 500], { maxFailures: 2 }, true],
    [
      "fails twice with maxFailures 0, which turns ejection off,",
      [500, 500],
      { maxFailures: 0 },
      false,
    ],
    ["fails with enforcingPercent 0", [500, 500, 500, 500, 500], { enforcingPercent: 0 }, false],
    ["fails with maxEjectionPercent 0", [500], { ...ALL, maxEjectionPercent: 0 }, false],
  ] as [string, number[], Partial<OutlierPolicy>, boolean][]
) {
  test(`an instance that ${what} is ${ejects ? "" : "not "}ejected`, async () => {
    await using rig = await Rig.start({ targets: [[1]], policy });
    for (const status of statuses) {
      rig.answers = () => status;
      assert.equal(await rig.ask(), status);
    }
    assert.deepEqual(rig.ejected, ejects ? [1] : []);
  });
}

for (
  const [percent, failed, of, ejected] of [
    // At least one; Envoy's percentage of fewer than ten instances may be none.
    [10, 4, 4, 1],
    [50, 4, 4, 2],
    [75, 2, 4, 2],
    [100, 3, 4, 3],
  ] as const
) {
  test(`${ejected} of ${failed} failing instances of ${of} are ejected at ${percent} %`, async () => {
    const ports = [1, 2, 3, 4].slice(0, of);
    await using rig = await Rig.start({
      targets: [ports],
      policy: { ...ALL, maxEjectionPercent: percent },
    });
    rig.answers = failing(...ports.slice(0, failed));
    await rig.askTimes(24);
    assert.equal(rig.ejected.length, ejected);
  });
}

for (
  const [what, answers, status] of [
    ["does not answer in time", "silent", 504],
    ["breaks its connection", "breaks", 503],
    ["cannot be connected to", "refuses", 503],
  ] as const
) {
  test(`an instance that ${what} is ejected`, async () => {
    await using rig = await Rig.start({ targets: [[1]], policy: { maxFailures: 2 } });
    rig.answers = () => answers;
    assert.deepEqual([await rig.ask(), rig.ejected], [status, []]);
    assert.deepEqual([await rig.ask(), rig.ejected], [status, [1]]);
  });
}

test("an ejected instance returns after the base time, and the next time after twice that", async () => {
  await using rig = await Rig.start({ targets: [[1], [2]], policy: ALL });
  const { clock } = rig.path;
  for (const awayMs of [30_000, 60_000]) {
    rig.answers = failing(1);
    assert.deepEqual(await rig.askTimes(2), [503, 200]);
    await clock.advance(awayMs - 5_000);
    assert.equal(await rig.ask(), 200);
    assert.deepEqual(rig.tried, [1, 2, 2]);
    rig.answers = () => 200;
    await clock.advance(5_000);
    rig.tried = [];
    await rig.ask();
    assert.deepEqual(rig.tried, [1]);
    rig.tried = [];
  }
});

for (
  const [what, targets, answers, tried] of [
    ["stay with the first target while it has instances", [[1, 2], [3]], () => 200, [1, 1, 2, 2]],
    ["go to the next target if the first has no instances", [[], [], [3]], () => 200, [3, 3, 3, 3]],
    [
      "go to the next instance before the next target",
      [[1, 2], [3]],
      refusing(1),
      [-1, 2, 2, 2, 2],
    ],
    ["go to the next target, in order", [[1], [2], [3]], refusing(1), [-1, 2, 2, 2, 2]],
    ["avoid failed targets, in order", [[1], [2], [3]], failing(1, 2), [1, 2, 3, 3]],
    // If all are ejected, ejections are ignored; Envoy would answer 503 itself.
    ["go to ejected instances if all are ejected", [[1], [2]], failing(1, 2), [1, 1, 1, 2]],
  ] as [string, number[][], Answers, number[]][]
) {
  test(`requests ${what}`, async () => {
    await using rig = await Rig.start({ targets, policy: ALL });
    rig.answers = answers;
    await rig.askTimes(4);
    assert.deepEqual(rig.tried.sort((a, b) => a - b), tried);
  });
}

for (
  const [what, targets, answers, status, tried] of [
    ["another instance", [[1, 2, 3]], failing(1), 200, [1, 2]],
    ["each of three instances, then fails", [[1, 2, 3]], failing(1, 2, 3), 503, [3]],
    ["the same instance if its target has no other", [[1], [2]], failing(1), 503, [1]],
  ] as [string, number[][], Answers, number, number[]][]
) {
  test(`a retried request goes to ${what}`, async () => {
    await using rig = await Rig.start({
      targets,
      policy: { enforcingPercent: 0 },
      retry: { numRetries: 2, retryOn: ["5xx"] },
    });
    rig.answers = answers;
    for (let round = 0; round < 6; round++) {
      rig.tried = [];
      assert.equal(await rig.ask(), status);
      assert.ok(tried.includes(new Set(rig.tried).size), `tried were ${rig.tried}`);
      assert.equal(rig.tried.length, status === 503 ? 3 : new Set(rig.tried).size);
    }
  });
}

test("a retried request goes to the next target once the first has no instance left", async () => {
  await using rig = await Rig.start({
    targets: [[1], [2]],
    policy: ALL,
    retry: { numRetries: 1, retryOn: ["5xx"] },
  });
  rig.answers = failing(1);
  assert.deepEqual(await rig.askTimes(3), [200, 200, 200]);
  assert.deepEqual(rig.tried, [1, 2, 2, 2]);
});
