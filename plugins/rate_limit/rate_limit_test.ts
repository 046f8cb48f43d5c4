import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, Stats } from "../../src/base/mod.ts";
import type { Connection, Identity } from "../../src/plugin/api.ts";
import { Generation, Onion, PluginRequest, PluginResponse } from "../../src/plugin/mod.ts";
import { LentCells, SharedState } from "../../src/plugin/mod.ts";
import { FakeClock } from "../../test/kit/clock.ts";
import definition from "./rate_limit.ts";

interface Asked {
  readonly path?: string;
  readonly source?: string;
  readonly remoteAddress?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Two workers of one proxy, or one. */
async function rig(config: unknown, options: {
  readonly routeConfig?: unknown;
  readonly workers?: number;
} = {}) {
  const { routeConfig, workers = 1 } = options;
  const clock = new FakeClock();
  const stats = new Stats();
  const lent = new LentCells();
  const lendCells = (key: string, length: number) => Promise.resolve(lent.lend(key, length));
  const lenders = Array.from({ length: workers }, (_, worker) => ({
    ...{ log: silentLog, stats, clock, random: Math.random },
    shared: new SharedState({ worker, workers, lendCells }),
  }));
  const make = (config: unknown) =>
    Promise.all(lenders.map((lender) =>
      Generation.make({
        ...{ listener: "inbound", number: 1, carriesBytes: false },
        plugins: [{ definition, config, onFailure: "refuse", at: "plugins[0]" }],
        routes: [{
          route: { name: "a", service: "db", match: null },
          configs: routeConfig ? { rate_limit: routeConfig } : {},
          at: "routes[0]",
        }],
        lender,
      })
    ));
  let generations = await make(config);
  return {
    clock,
    stats,
    async reload(config: unknown) {
      for (const generation of generations) generation.retire();
      generations = await make(config);
    },
    ask(asked: Asked = {}, worker = 0): PluginResponse {
      const { path = "/", source = "web", remoteAddress = "10.0.0.1:4000", headers = {} } = asked;
      const generation = generations[worker];
      assert.ok(generation);
      const uri = `spiffe://t/ns/default/dc/dc1/svc/${source}`;
      const connection: Connection = {
        ...{ listener: "inbound", direction: "inbound", remoteAddress },
        source: source === "" ? null : { uri } as Identity,
      };
      const onion = new Onion({
        exchange: { connection } as never,
        guards: generation.guards,
        planOf: (request) => generation.planOf(request),
        sendOn: (_, { outcome }) => outcome.settle(OK),
        limit: () => ({ cancel() {} }),
        idleTimeoutMs: undefined,
      });
      const request = new PluginRequest({
        ...{ method: "GET", scheme: "http", authority: "db", path, upgrade: "", length: 0 },
        ...{ saysLength: false, expectsContinue: false, version: "HTTP/1.1" },
        fields: Object.entries(headers).flat(),
      }, null);
      const { value } = onion.run(request);
      assert.ok(value, "it waits for nothing");
      assert.deepEqual(generation.views().map(({ lastFailure }) => lastFailure), [null]);
      return value;
    },
  };
}

const OK = new PluginResponse({ status: 200, length: 0, fields: [] }, null, {
  endpoint: null,
  failure: null,
});

const tenant = (name: string): Asked => ({ headers: { "x-tenant": name } });

for (
  const [what, config, requests] of [
    ["everybody", { limits: [{ requestsPerSecond: 2 }] }, [
      [{}, 200],
      [{ source: "shop" }, 200],
      [{ source: "" }, 429],
    ]],
    ["each source", { limits: [{ requestsPerSecond: 1, by: "source" }] }, [
      [{}, 200],
      [{ remoteAddress: "10.0.0.2:1" }, 429],
      [{ source: "shop" }, 200],
      [{ source: "" }, 200],
      [{ source: "" }, 429],
    ]],
    ["each address, whatever the port", {
      limits: [{ requestsPerSecond: 1, by: "remote_address" }],
    }, [
      [{}, 200],
      [{ remoteAddress: "10.0.0.1:4001" }, 429],
      [{ remoteAddress: "10.0.0.2:4000" }, 200],
      [{ remoteAddress: "[2001:db8::1]:4000" }, 200],
      [{ remoteAddress: "[2001:db8::1]:4002" }, 429],
      [{ remoteAddress: "[2001:db8::2]:4000" }, 200],
    ]],
    ["each value of a header, and who has none", {
      limits: [{ requestsPerSecond: 1, by: { header: "X-Tenant" } }],
    }, [
      [tenant("a"), 200],
      [tenant("b"), 200],
      [tenant("a"), 429],
      [{}, 200],
      [{}, 429],
    ]],
    ["a burst", { limits: [{ requestsPerSecond: 1, burst: 3 }] }, [
      [{}, 200],
      [{}, 200],
      [{}, 200],
      [{}, 429],
    ]],
    ["one and all, where the one takes nothing from all", {
      limits: [{ requestsPerSecond: 2 }, { requestsPerSecond: 1, by: "source" }],
    }, [
      [{}, 200],
      [{}, 429],
      [{}, 429],
      [{ source: "shop" }, 200],
      [{ source: "blog" }, 429],
    ]],
    ["paths in place of the rest, by the first that matches", {
      limits: [{ requestsPerSecond: 1 }],
      paths: [
        { exact: "/free", limits: [] },
        { exact: "/a", limits: [{ requestsPerSecond: 1 }] },
        { prefix: "/a", limits: [{ requestsPerSecond: 2 }] },
      ],
    }, [
      [{ path: "/" }, 200],
      [{ path: "/b" }, 429],
      [{ path: "/free" }, 200],
      [{ path: "/free?x" }, 200],
      [{ path: "/free/x" }, 429],
      [{ path: "/a" }, 200],
      [{ path: "/a?b" }, 429],
      [{ path: "/ab" }, 200],
      [{ path: "/a/b" }, 200],
      [{ path: "/a/c" }, 429],
    ]],
    ["nobody", {}, [[{}, 200], [{}, 200]]],
  ] as readonly (readonly [string, unknown, readonly (readonly [Asked, number])[]])[]
) {
  test(`rate_limit of ${what}`, async () => {
    const { ask } = await rig(config);
    const statuses = requests.map(([asked]) => ask(asked).status);
    assert.deepEqual(statuses, requests.map(([, status]) => status));
  });
}

test("rate_limit lets requests in again as tokens come", async () => {
  const { ask, clock } = await rig({ limits: [{ requestsPerSecond: 10 }] });
  const granted = () => {
    let count = 0;
    while (ask().status === 200) count++;
    return count;
  };
  assert.equal(granted(), 10);
  await clock.advance(99);
  assert.equal(granted(), 0);
  await clock.advance(202);
  assert.equal(granted(), 3);
});

test("rate_limit refuses as a failure, and counts it", async () => {
  const { ask, stats } = await rig({ limits: [{ requestsPerSecond: 1, by: "source" }] });
  ask();
  for (let times = 0; times < 2; times++) {
    const { failure, status } = ask();
    assert.equal(status, 429);
    assert.equal(failure?.code, "rate_limited");
    assert.equal(failure?.reason, "more than 1 requests a second of one source");
  }
  const counted = stats.samples().filter(({ value }) => value > 0);
  assert.deepEqual(counted.map(({ name, labels, value }) => [name, labels, value]), [
    ["plugin_rate_limit_refused_total", { by: "source" }, 2],
  ]);
});

test("rate_limit of a route holds besides that of the listener", async () => {
  const { ask } = await rig({ limits: [{ requestsPerSecond: 5 }] }, {
    routeConfig: { limits: [{ requestsPerSecond: 2 }] },
  });
  assert.deepEqual([1, 2, 3].map(() => ask().status), [200, 200, 429]);
  const { ask: other } = await rig({ limits: [{ requestsPerSecond: 1 }] }, {
    routeConfig: { limits: [{ requestsPerSecond: 2 }] },
  });
  assert.deepEqual([1, 2].map(() => other().status), [200, 429]);
});

test("rate_limit holds for all workers together, and over a reload", async () => {
  const limits = [{ requestsPerSecond: 3, by: "source" }];
  const { ask, reload } = await rig({ limits }, { workers: 2 });
  assert.deepEqual([0, 1, 0, 1, 0].map((worker) => ask({}, worker).status), [
    ...[200, 200, 200, 429, 429],
  ]);
  await reload({ limits: [...limits, { requestsPerSecond: 100 }] });
  assert.equal(ask({}, 1).status, 429);
  await reload({ limits: [{ requestsPerSecond: 4, by: "source" }] });
  assert.equal(ask({}, 1).status, 200, "another rate begins with a full bucket");
});

for (
  const [config, message] of [
    [{ limits: [{ requestsPerSecond: 0 }] }, "plugins[0].config.limits[0].requestsPerSecond"],
    [{ limits: [{ requestsPerSecond: 1, burst: 0 }] }, "plugins[0].config.limits[0].burst"],
    [{ limits: [{ requestsPerSecond: 1, by: "moon" }] }, "plugins[0].config.limits[0].by"],
    [{ limits: [{ requestsPerSecond: 0.001, burst: 100 }] }, "more than a day"],
    [{ limits: [{ requestsPerSecond: 1, by: { header: "a b" } }] }, "is no header's name"],
    [{ paths: [{ exact: "/", prefix: "/", limits: [] }] }, "plugins[0].config.paths[0]"],
    [{ limit: [] }, "plugins[0].config.limit"],
  ] as const
) {
  test(`rate_limit refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(rig(config), ({ message: text }: Error) => text.includes(message));
  });
}
