/** A watch beside servers; the test gives the answers and moves the clock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, ProxyError, silentLog, Stats } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { AskAgain } from "../http/carrier.ts";
import { ConsulReach } from "./consul_reach.ts";
import { type PollAnswer, type PollRequest, startWatch } from "./blocking_query.ts";
import { ConnectionBudget } from "./budget.ts";
import { serversWatchTerms } from "./watch_terms.ts";

type Names = readonly string[];

/** A request in words: `read`, `wait 7` or `glance`. */
function wordsOf({ cursor, stale }: PollRequest<Names>): string {
  if (cursor !== undefined) return `${stale ? "wait" : "default wait"} ${cursor}`;
  return stale ? "glance" : "read";
}

class Scene {
  readonly clock = new FakeClock();
  readonly reach = new ConsulReach();
  readonly asked: string[] = [];
  readonly values: string[] = [];
  readonly errors: string[] = [];
  #answer: PromiseWithResolvers<PollAnswer<Names>> | undefined;
  readonly #budget = new ConnectionBudget({
    connections: 100,
    clock: this.clock,
    log: silentLog,
    stats: new Stats(),
  });

  /** `critical`: the pause after failures stays short. */
  watch(options: { readonly critical: boolean } = { critical: true }): void {
    const { clock, reach } = this;
    startWatch<Names>({
      name: "names",
      resource: "names",
      ...options.critical && { isCritical: true },
      isDropped: true,
      lacks: (after, before) => before.some((name) => !after.includes(name)),
      poll: (request) => {
        this.asked.push(wordsOf(request));
        this.#answer = Promise.withResolvers();
        return this.#answer.promise;
      },
    }, {
      sink: {
        onValue: (names) => this.values.push(names.join(" ")),
        onError: ({ code }) => this.errors.push(code),
      },
      deps: {
        clock,
        reach,
        random: () => 1,
        log: silentLog,
        stats: new Stats(),
        budget: this.#budget,
        terms: serversWatchTerms(reach),
      },
    });
  }

  async answer(index: number, names: string): Promise<void> {
    await this.clock.advance(0);
    const value = names.split(" ").filter((name) => name !== "");
    this.#answer?.resolve({ value, cursor: String(index) });
    await this.clock.advance(0);
  }

  async fail(code: ErrorCode = "agent_failed"): Promise<void> {
    await this.clock.advance(0);
    this.#answer?.reject(new ProxyError(code, "500"));
    await this.clock.advance(0);
  }

  /** Another server is in use. */
  async move(): Promise<void> {
    this.reach.moved();
    this.#answer?.reject(new AskAgain("The server was left"));
    await this.clock.advance(0);
  }

  /** The requests since the last call. */
  take(): string[] {
    return this.asked.splice(0);
  }
}

async function settled(index = 44, names = "a b"): Promise<Scene> {
  const scene = new Scene();
  scene.watch();
  await scene.answer(index, names);
  assert.deepEqual(scene.take(), ["read", `wait ${index}`]);
  assert.deepEqual(scene.values, [names]);
  return scene;
}

test("a stale answer that only adds is delivered at once", async () => {
  const scene = await settled();
  await scene.answer(93, "a b c");
  assert.deepEqual(scene.take(), ["wait 93"]);
  assert.deepEqual(scene.values, ["a b", "a b c"]);
});

test("an empty answer with index 1 from a restarted server is not delivered", async () => {
  const scene = await settled();
  await scene.move();
  assert.deepEqual(scene.take(), ["read"]);
  await scene.fail();
  assert.deepEqual(scene.take(), ["glance"], "there is no leader");
  await scene.answer(1, "");
  assert.deepEqual(scene.take(), []);
  await scene.clock.advance(1_000);
  assert.deepEqual(scene.take(), ["read"]);
  await scene.answer(95, "a b");
  assert.deepEqual(scene.take(), ["wait 95"]);
  assert.deepEqual(scene.values, ["a b"]);
  assert.deepEqual(scene.errors, ["agent_failed"]);
});

test("a stale answer that lacks a name is confirmed by the leader before it is delivered", async () => {
  const scene = await settled();
  await scene.answer(93, "b");
  assert.deepEqual(scene.take(), ["read"]);
  assert.deepEqual(scene.values, ["a b"]);
  await scene.answer(93, "b");
  assert.deepEqual(scene.values, ["a b", "b"]);
  assert.deepEqual(scene.take(), ["wait 93"]);
});

test("a name that only a stale answer lacks stays", async () => {
  const scene = await settled();
  await scene.answer(93, "");
  await scene.answer(44, "a b");
  assert.deepEqual(scene.take(), ["read", "wait 44"]);
  assert.deepEqual(scene.values, ["a b"]);
});

test("repeated stale answers that lack a name are paced", async () => {
  const scene = await settled();
  for (let lies = 0; lies < 40; lies++) {
    await scene.answer(93, "");
    await scene.answer(44, "a b");
  }
  assert.deepEqual(scene.values, ["a b"]);
  assert.ok(scene.take().length <= 22, "ten at once, and then as the clock goes");
});

test("a leader's answer with a lower index is believed", async () => {
  const scene = await settled();
  await scene.move();
  await scene.answer(12, "c");
  assert.deepEqual(scene.take(), ["read", "wait 12"]);
  assert.deepEqual(scene.values, ["a b", "c"]);
});

test("a move without a leader goes on waiting at another server, without an error", async () => {
  const scene = await settled();
  await scene.move();
  await scene.fail();
  await scene.answer(44, "a b");
  assert.deepEqual(scene.take(), ["read", "glance", "wait 44"]);
  assert.deepEqual(scene.errors, [], "no error is reported");
});

test("the leader is asked every second while there is none", async () => {
  const scene = await settled();
  await scene.move();
  for (let second = 0; second < 10; second++) {
    await scene.fail();
    await scene.answer(1, "");
    await scene.clock.advance(1_000);
  }
  assert.equal(scene.take().at(-1), "read");
  await scene.answer(95, "a b c");
  assert.deepEqual(scene.values, ["a b", "a b c"]);
});

test("a wait that failed is followed by a read", async () => {
  const scene = await settled();
  await scene.fail();
  await scene.clock.advance(1_000);
  assert.deepEqual(scene.take(), ["read"]);
});

test("a move ends a pause", async () => {
  const scene = await settled();
  await scene.fail("agent_unreachable");
  assert.deepEqual(scene.take(), []);
  scene.reach.moved();
  await scene.clock.advance(500);
  assert.deepEqual(scene.take(), ["read"], "watches read again within half a second");
});

test("moves are not reported as failures", async () => {
  const scene = await settled();
  for (let moves = 0; moves < 5; moves++) await scene.move();
  assert.deepEqual(scene.errors, []);
  assert.deepEqual(scene.take(), ["read", "read", "read", "read", "read"]);
});

test("requests after repeated moves are paced", async () => {
  const scene = await settled();
  for (let moves = 0; moves < 40; moves++) await scene.move();
  assert.ok(scene.take().length <= 10, "ten at once, and then as the clock goes");
});

test("no stale request is sent before the first delivery", async () => {
  const scene = new Scene();
  scene.watch();
  await scene.clock.advance(0);
  for (let second = 0; second < 5; second++) {
    await scene.fail();
    await scene.clock.advance(1_000);
  }
  assert.ok(scene.take().every((words) => words === "read"));
});
