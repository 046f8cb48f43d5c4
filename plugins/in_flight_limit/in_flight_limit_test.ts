import assert from "node:assert/strict";
import { test } from "node:test";
import { PluginWorkers } from "../../test/kit/engine/plugin_workers.ts";
import definition from "./in_flight_limit.ts";

function start(config: unknown, options?: Parameters<typeof PluginWorkers.start>[2]) {
  return PluginWorkers.start(definition, config, options);
}

test("in_flight_limit refuses requests above the limit, and takes more when one ends", async () => {
  const proxy = await start({ limit: 2 });
  const [first] = [proxy.ask(), proxy.ask({ source: "shop" })];
  const { failure, status } = proxy.ask();
  assert.deepEqual([status, failure?.code], [503, "limit_reached"]);
  assert.equal(failure?.reason, "2 requests are running already");
  first.end();
  assert.equal(proxy.ask().status, 200);
  assert.equal(proxy.ask().status, 503);
  assert.deepEqual(proxy.counted(), [["refused_total", { by: "all" }, 2]]);
});

test("in_flight_limit by source counts each source apart, and not requests that another limit refused", async () => {
  const proxy = await start({ limit: 3, limitPerSource: 2 });
  const ask = (source: string) => proxy.ask({ source });
  const [first] = [ask("web"), ask("web")];
  assert.equal(ask("web").status, 503);
  assert.equal(ask("").status, 200);
  for (let times = 0; times < 3; times++) assert.equal(ask("blog").status, 503);
  first.end();
  assert.equal(ask("blog").status, 200);
});

test("in_flight_limit of a route applies in addition to that of the listener", async () => {
  const proxy = await start({ limit: 3 }, { routeConfig: { limit: 1 } });
  const first = proxy.ask();
  assert.deepEqual([first.status, proxy.ask().status], [200, 503]);
  first.end();
  assert.deepEqual([proxy.ask().status, proxy.ask().status], [200, 503]);
});

test("in_flight_limit counts requests of other workers, and clears those of a dead worker", async () => {
  const config = { limit: 3 };
  const proxy = await start(config, { workers: 2 });
  const [first] = [0, 1, 1].map((worker) => proxy.ask({ worker }));
  assert.deepEqual([0, 1].map((worker) => proxy.ask({ worker }).status), [503, 503]);
  first?.end();
  assert.equal(proxy.ask({ worker: 1 }).status, 200);
  await proxy.restart(1, config);
  for (let times = 0; times < 3; times++) assert.equal(proxy.ask({ worker: 0 }).status, 200);
  assert.equal(proxy.ask({ worker: 1 }).status, 503);
});

test("in_flight_limit counts running requests over a reload, even if there was no limit in between", async () => {
  const proxy = await start({ limit: 2 });
  const two = () => [proxy.ask().status, proxy.ask().status];
  const running = [proxy.ask(), proxy.ask()];
  await proxy.load({ limit: 3 });
  assert.deepEqual(two(), [200, 503]);
  await proxy.load({});
  assert.equal(proxy.ask().status, 200);
  await proxy.load({ limit: 3 });
  assert.equal(proxy.ask().status, 503);
  running[0]?.end();
  assert.deepEqual(two(), [200, 503]);
  await proxy.load({ limit: 1 }, "another");
  assert.deepEqual(two(), [200, 503]);
});

test("in_flight_limit refuses keys without a free slot until other requests end", async () => {
  const proxy = await start({ limitPerSource: 1 });
  const ask = (source: string) => proxy.ask({ source });
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
    await assert.rejects(start(config), ({ message: text }: Error) => text.includes(message));
  });
}
