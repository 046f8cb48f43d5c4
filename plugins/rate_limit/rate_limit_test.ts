import assert from "node:assert/strict";
import { test } from "node:test";
import { PluginWorkers, type WorkerRequest } from "../../test/kit/engine/plugin_workers.ts";
import definition from "./rate_limit.ts";

function start(config: unknown, options?: Parameters<typeof PluginWorkers.start>[2]) {
  return PluginWorkers.start(definition, config, options);
}

const tenant = (name: string): WorkerRequest => ({ headers: { "x-tenant": name } });

for (
  const [what, config, requests] of [
    ["all requests", { limits: [{ requestsPerSecond: 2 }] }, [
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
    ["each value of a header, and of requests without it", {
      limits: [{ requestsPerSecond: 1, by: { header: "X-Tenant" } }],
    }, [
      [tenant("a"), 200],
      [tenant("b"), 200],
      [tenant("a"), 429],
      [{}, 200],
      [{}, 429],
    ]],
    ["each claim of a verified token, and of requests without it", {
      limits: [{ requestsPerSecond: 1, by: { claim: { provider: "okta", path: ["org", "id"] } } }],
    }, [
      [{ claims: { org: { id: "a" } } }, 200],
      [{ claims: { org: { id: "b" } } }, 200],
      [{ claims: { org: { id: "a" } } }, 429],
      [{ claims: { org: { id: 7 } } }, 200],
      [{ claims: { org: { id: 7 } } }, 429],
      [{}, 200],
      [{ claims: { org: { id: ["a"] } } }, 429],
      [{ claims: { org: "id" } }, 429],
      [{ claims: {} }, 429],
    ]],
    ["a claim of another provider as a missing claim", {
      limits: [{ requestsPerSecond: 1, by: { claim: { provider: "auth0", path: ["sub"] } } }],
    }, [[{ claims: { sub: "a" } }, 200], [{ claims: { sub: "b" } }, 429]]],
    ["a burst", { limits: [{ requestsPerSecond: 1, burst: 3 }] }, [
      [{}, 200],
      [{}, 200],
      [{}, 200],
      [{}, 429],
    ]],
    ["each source and all, where a refusal by source takes no common token", {
      limits: [{ requestsPerSecond: 2 }, { requestsPerSecond: 1, by: "source" }],
    }, [
      [{}, 200],
      [{}, 429],
      [{}, 429],
      [{ source: "shop" }, 200],
      [{ source: "blog" }, 429],
    ]],
    ["paths by the first match, in place of the general limits", {
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
    ["paths by a regex, without the query, and of paths too long for it", {
      paths: [{ regex: "/a/[0-9]+", limits: [{ requestsPerSecond: 1 }] }],
    }, [
      [{ path: "/a/1" }, 200],
      [{ path: "/a/2?x" }, 429],
      [{ path: "/a/x" }, 200],
      [{ path: "/a/1/b" }, 200],
      [{ path: "/b?/a/1" }, 200],
      [{ path: `/${"b".repeat(9_000)}` }, 429],
    ]],
    ["no limits", {}, [[{}, 200], [{}, 200]]],
  ] as readonly (readonly [string, unknown, readonly (readonly [WorkerRequest, number])[]])[]
) {
  test(`rate_limit of ${what}`, async () => {
    const proxy = await start(config);
    const statuses = requests.map(([request]) => proxy.ask(request).status);
    assert.deepEqual(statuses, requests.map(([, status]) => status));
  });
}

test("rate_limit admits requests again as buckets refill", async () => {
  const proxy = await start({ limits: [{ requestsPerSecond: 10 }] });
  const granted = () => {
    let count = 0;
    while (proxy.ask().status === 200) count++;
    return count;
  };
  assert.equal(granted(), 10);
  await proxy.clock.advance(99);
  assert.equal(granted(), 0);
  await proxy.clock.advance(202);
  assert.equal(granted(), 3);
});

test("rate_limit refuses with the code rate_limited, and counts the refusal", async () => {
  const proxy = await start({ limits: [{ requestsPerSecond: 1, by: "source" }] });
  proxy.ask();
  for (let times = 0; times < 2; times++) {
    const { failure, status } = proxy.ask();
    assert.equal(status, 429);
    assert.equal(failure?.code, "rate_limited");
    assert.equal(failure?.reason, "more than 1 requests a second of one source");
  }
  assert.deepEqual(proxy.counted(), [["refused_total", { by: "source" }, 2]]);
});

test("rate_limit of a route applies in addition to that of the listener", async () => {
  const routeConfig = { limits: [{ requestsPerSecond: 2 }] };
  const narrow = await start({ limits: [{ requestsPerSecond: 5 }] }, { routeConfig });
  assert.deepEqual([1, 2, 3].map(() => narrow.ask().status), [200, 200, 429]);
  const wide = await start({ limits: [{ requestsPerSecond: 1 }] }, { routeConfig });
  assert.deepEqual([1, 2].map(() => wide.ask().status), [200, 429]);
});

test("rate_limit shares buckets between workers, over a reload and the death of a worker", async () => {
  const limits = [{ requestsPerSecond: 3, by: "source" }];
  const proxy = await start({ limits }, { workers: 2 });
  const statuses = [0, 1, 0, 1, 0].map((worker) => proxy.ask({ worker }).status);
  assert.deepEqual(statuses, [200, 200, 200, 429, 429]);
  await proxy.load({ limits: [...limits, { requestsPerSecond: 100 }] });
  assert.equal(proxy.ask({ worker: 1 }).status, 429);
  await proxy.restart(1, { limits });
  assert.equal(proxy.ask({ worker: 1 }).status, 429);
  await proxy.load({ limits }, "another");
  assert.equal(proxy.ask().status, 200, "another listener has buckets of its own");
  await proxy.load({ limits: [{ requestsPerSecond: 4, by: "source" }] });
  assert.equal(proxy.ask().status, 200, "another rate begins with a full bucket");
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
    await assert.rejects(start(config), ({ message: text }: Error) => text.includes(message));
  });
}
