import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, Stats } from "../../src/base/mod.ts";
import type { ExchangeSummary, Identity } from "../../src/plugin/api.ts";
import {
  Generation,
  LentCells,
  Onion,
  PluginRequest,
  PluginResponse,
  SharedState,
} from "../../src/plugin/mod.ts";
import { FakeClock } from "../../test/kit/clock.ts";
import definition from "./in_flight_limit.ts";

interface Asked {
  readonly status: number;
  readonly answer: PluginResponse;
  /** All about it is over. */
  end(): void;
}

const SUMMARY: ExchangeSummary = {
  ...{ status: 200, code: "", attempts: 1, durationMs: 0, endpoint: null },
};
const OK = new PluginResponse({ status: 200, length: 0, fields: [] }, null, {
  endpoint: null,
  failure: null,
});

/** Workers of one proxy. */
async function rig(config: unknown, options: {
  readonly routeConfig?: unknown;
  readonly workers?: number;
} = {}) {
  const { routeConfig, workers = 1 } = options;
  const clock = new FakeClock();
  const stats = new Stats();
  const lent = new LentCells();
  const lendCells = (key: string, length: number) => Promise.resolve(lent.lend(key, length));
  const start = (worker: number) => new SharedState({ worker, workers, lendCells });
  const states = Array.from({ length: workers }, (_, worker) => start(worker));
  const make = (config: unknown, listener: string) =>
    Promise.all(states.map((shared) =>
      Generation.make({
        ...{ listener, number: 1, carriesBytes: false },
        plugins: [{ definition, config, onFailure: "refuse", at: "plugins[0]" }],
        routes: [{
          route: { name: "a", service: "db", match: null },
          configs: routeConfig ? { in_flight_limit: routeConfig } : {},
          at: "routes[0]",
        }],
        lender: { log: silentLog, stats, clock, random: () => 0, shared },
      })
    ));
  let generations = await make(config, "inbound");
  const load = async (config: unknown, listener = "inbound") => {
    for (const generation of generations) void generation.close();
    generations = await make(config, listener);
  };
  return {
    stats,
    load,
    /** Another takes the place of one that died. */
    async restart(worker: number) {
      states[worker] = start(worker);
      generations = await make(config, "inbound");
    },
    ask(source = "web", worker = 0): Asked {
      const generation = generations[worker];
      assert.ok(generation);
      const uri = `spiffe://t/ns/default/dc/dc1/svc/${source}`;
      const ends: ((summary: ExchangeSummary) => void)[] = [];
      const onion = new Onion({
        exchange: {
          connection: { source: { uri } as Identity },
          onEnd: (callback: (summary: ExchangeSummary) => void) => void ends.push(callback),
        } as never,
        guards: generation.guards,
        planOf: (request) => generation.planOf(request),
        sendOn: (_, { outcome }) => outcome.settle(OK),
        limit: () => ({ cancel() {} }),
        idleTimeoutMs: undefined,
      });
      const request = new PluginRequest({
        ...{ method: "GET", scheme: "http", authority: "db", path: "/", upgrade: "", length: 0 },
        ...{ saysLength: false, expectsContinue: false, version: "HTTP/1.1", fields: [] },
      }, null);
      const { value } = onion.run(request);
      assert.ok(value, "it waits for nothing");
      const end = () => ends.splice(0).forEach((callback) => callback(SUMMARY));
      // What is refused is over at once.
      if (value.failure) end();
      return { status: value.status, answer: value, end };
    },
  };
}

test("in_flight_limit lets so many requests run at once", async () => {
  const { ask, stats } = await rig({ limit: 2 });
  const [first] = [ask(), ask("shop")];
  const { answer, status } = ask();
  assert.deepEqual([status, answer.failure?.code], [503, "limit_reached"]);
  assert.equal(answer.failure?.reason, "2 requests are running already");
  first.end();
  assert.equal(ask().status, 200);
  assert.equal(ask().status, 503);
  const refused = stats.samples().filter(({ value }) => value > 0);
  assert.deepEqual(refused.map(({ name, labels, value }) => [name, labels, value]), [
    ["plugin_in_flight_limit_refused_total", { by: "all" }, 2],
  ]);
});

test("in_flight_limit of each source leaves room to the others, and gives back what another limit refuses", async () => {
  const { ask } = await rig({ limit: 3, limitPerSource: 2 });
  const [first] = [ask("web"), ask("web")];
  assert.equal(ask("web").status, 503);
  assert.equal(ask("shop").status, 200);
  for (let times = 0; times < 3; times++) assert.equal(ask("blog").status, 503);
  first.end();
  assert.equal(ask("blog").status, 200);
});

test("in_flight_limit of a route holds besides that of the listener", async () => {
  const { ask } = await rig({ limit: 3 }, { routeConfig: { limit: 1 } });
  const first = ask();
  assert.deepEqual([first.status, ask().status], [200, 503]);
  first.end();
  assert.deepEqual([ask().status, ask().status], [200, 503]);
});

test("in_flight_limit counts what other workers run, and forgets what one ran that died", async () => {
  const { ask, restart } = await rig({ limit: 3 }, { workers: 2 });
  const running = [ask("web", 0), ask("web", 1), ask("web", 1)];
  assert.deepEqual([ask("web", 0).status, ask("web", 1).status], [503, 503]);
  running[0]?.end();
  assert.equal(ask("web", 1).status, 200);
  await restart(1);
  for (let times = 0; times < 3; times++) assert.equal(ask("web", 0).status, 200);
  assert.equal(ask("web", 1).status, 503);
});

test("in_flight_limit knows after a reload what runs, even where nothing limited it meanwhile", async () => {
  const { ask, load } = await rig({ limit: 2 });
  const running = [ask(), ask()];
  await load({ limit: 3 });
  assert.deepEqual([ask().status, ask().status], [200, 503]);
  await load({});
  assert.equal(ask().status, 200);
  await load({ limit: 3 });
  assert.equal(ask().status, 503);
  running[0]?.end();
  assert.deepEqual([ask().status, ask().status], [200, 503]);
  await load({ limit: 1 }, "another");
  assert.deepEqual([ask().status, ask().status], [200, 503]);
});

test("in_flight_limit of more keys than there are places goes on, and refuses where it cannot count", async () => {
  const { ask } = await rig({ limitPerSource: 1 });
  for (let i = 0; i < 5_000; i++) {
    const { status, end } = ask(`s-${i}`);
    assert.equal(status, 200);
    end();
  }
  const all = Array.from({ length: 3_000 }, (_, i) => ask(`t-${i}`));
  const granted = all.filter(({ status }) => status === 200);
  assert.ok(granted.length > 1_500 && granted.length <= 2_048, `${granted.length}`);
  for (const { end } of granted) end();
  assert.equal(ask("t-1").status, 200);
});

for (
  const [config, message] of [
    [{ limit: 0 }, "plugins[0].config.limit:"],
    [{ limit: 1.5 }, "plugins[0].config.limit:"],
    [{ limitPerSource: "1" }, "plugins[0].config.limitPerSource:"],
    [{ limits: 1 }, "plugins[0].config.limits:"],
  ] as const
) {
  test(`in_flight_limit refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(rig(config), ({ message: text }: Error) => text.includes(message));
  });
}
