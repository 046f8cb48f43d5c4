import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "../base/mod.ts";
import { readChain } from "../consul/replies/discovery_chain.ts";
import { fixture } from "../../test/kit/consul/scripted_agent.ts";
import type { ChainNode, DiscoveryChain } from "./compiled_chain.ts";
import { evenChance, pickSplit } from "./pick_split.ts";
import { resolveChain } from "./resolve.ts";

/** Where the fixtures were recorded, with ways to go to other datacenters directly. */
const LOCAL = { datacenter: "dc1", partition: "default" };

function rich(): DiscoveryChain {
  const chain = readChain(fixture("chain_rich"));
  const targets = Object.entries(chain.targets)
    .map(([id, target]) => [id, { ...target, meshGatewayMode: "none" }]);
  return { ...chain, targets: Object.fromEntries(targets) };
}

function resolved(chain: DiscoveryChain) {
  const resolution = resolveChain(chain, LOCAL);
  assert.equal(resolution.kind, "resolved", JSON.stringify(resolution));
  return resolution;
}

test("resolveChain() follows a real router, splitter and resolvers to their targets", () => {
  const { routes, resolvers, requestTimeoutMs } = resolved(rich());
  const shown = routes.map(({ name, service, splits }) =>
    `${name} ${service}: ${splits.map((each) => `${each.weight} ${each.resolver}`).join(", ")}`
  );
  const api =
    "8950 resolver:v1.api.default.default.dc1, 1000 resolver:v2.api.default.default.dc1, " +
    "50 resolver:canary.default.default.dc1";
  assert.deepEqual(shown, [
    "routes[0] canary: 10000 resolver:canary.default.default.dc1",
    "routes[1] admin: 10000 resolver:admin.default.default.dc1",
    "routes[2] api: 10000 resolver:v2.api.default.default.dc1",
    "routes[3] legacy: 10000 resolver:cache.default.default.dc2",
    `routes[4] api: ${api}`,
    `default api: ${api}`,
  ]);
  assert.deepEqual(
    resolvers.get("resolver:canary.default.default.dc1")?.targets.map(({ id }) => id),
    ["canary.default.default.dc1", "backup.default.default.dc2"],
  );
  assert.equal(resolvers.size, 5);
  assert.equal(requestTimeoutMs, 0, "of a resolver that does not begin the chain");
});

test("resolveChain() reads the match of a real route", () => {
  const [route] = resolved(rich()).routes;
  const value = { ignoreCase: false, invert: false };
  assert.deepEqual(route?.match, {
    path: { kind: "exact", value: "/exact" },
    ignoreCase: true,
    methods: ["GET", "PUT"],
    headers: [
      { ...value, name: "x-p", kind: "present", value: "" },
      { ...value, name: "x-e", kind: "exact", value: "1" },
      { ...value, name: "x-pre", kind: "prefix", value: "a" },
      { ...value, name: "x-suf", kind: "suffix", value: "z" },
      { ...value, name: "x-re", kind: "regex", value: "r+", invert: true },
    ],
    query: [
      { ...value, name: "a", kind: "present", value: "" },
      { ...value, name: "b", kind: "exact", value: "2" },
      { ...value, name: "c", kind: "regex", value: "[0-9]+" },
    ],
  });
});

test("resolveChain() keeps the other settings of a real route and its splits", () => {
  const { routes } = resolved(rich());
  assert.deepEqual(routes[0]?.destination, {
    service: "canary",
    prefixRewrite: "/new",
    requestTimeoutMs: 30_000,
    idleTimeoutMs: 90_000,
    retries: 3,
    retryOnConnectFailure: true,
    retryOn: ["reset", "gateway-error"],
    retryOnStatuses: [502, 503],
    requestHeaders: {
      remove: ["x-rm"],
      set: { "x-set": "%DOWNSTREAM_REMOTE_ADDRESS%" },
      add: { "x-add": "1" },
    },
    responseHeaders: { remove: [], set: { "x-resp": "1" }, add: {} },
  });
  assert.equal(routes[1]?.destination?.requestTimeoutMs, -1_000);
  assert.deepEqual(routes.map(({ match }) => match?.path ?? null), [
    { kind: "exact", value: "/exact" },
    { kind: "prefix", value: "/admin/" },
    { kind: "regex", value: "/v[0-9]+/.*" },
    { kind: "prefix", value: "/legacy" },
    null,
    null,
  ]);
  assert.equal(routes.at(-1)?.match, null);
  const [first, second] = routes.at(-1)?.splits ?? [];
  assert.deepEqual(first?.requestHeaders, { remove: [], set: { "x-split": "v1" }, add: {} });
  assert.deepEqual(first?.responseHeaders, { remove: ["server"], set: {}, add: { "x-leg": "v1" } });
  assert.deepEqual([second?.requestHeaders, second?.responseHeaders], [null, null]);
});

test("resolveChain() uses the hash policy of a real splitter's first hashing resolver for all splits", () => {
  const { routes } = resolved(rich());
  assert.deepEqual(routes.at(-1)?.hash.map(({ kind, terminal }) => `${kind} ${terminal}`), [
    "header true",
    "cookie false",
    "cookie false",
    "query false",
    "source false",
  ]);
  assert.deepEqual(routes[0]?.hash, [], "a route to a resolver without hash policies");
});

const RESOLVER = "resolver:v1.api.default.default.dc1";
const leg = (weight: number, next = RESOLVER) => ({
  weight,
  next,
  unknown: [],
  requestHeaders: null,
  responseHeaders: null,
});

for (
  const [name, startNode, changes, want] of [
    [
      "leaves out a split without a weight",
      "splitter:x",
      { "splitter:x": { kind: "splitter", name: "x", splits: [leg(0, "gone"), leg(100)] } },
      /^resolved$/,
    ],
    [
      "refuses a splitter without a weight",
      "splitter:x",
      { "splitter:x": { kind: "splitter", name: "x", splits: [leg(0)] } },
      /no split of "splitter:x" has a weight/,
    ],
    [
      "refuses a split without a node",
      "splitter:x",
      { "splitter:x": { kind: "splitter", name: "x", splits: [leg(100, "resolver:y")] } },
      /a split leads to "resolver:y", no resolver/,
    ],
    [
      "refuses splitters in a cycle",
      "splitter:x",
      { "splitter:x": { kind: "splitter", name: "x", splits: [leg(100, "splitter:x")] } },
      /a split leads to "splitter:x", no resolver/,
    ],
    [
      "refuses a router whose last route does not match everything",
      "router:x",
      { "router:x": { kind: "router", name: "x", routes: [] } },
      /its last route does not take everything/,
    ],
  ] as [string, string, Record<string, ChainNode>, RegExp][]
) {
  test(`resolveChain() ${name}`, () => {
    const chain = rich();
    const resolution = resolveChain(
      { ...chain, startNode, nodes: { ...chain.nodes, ...changes } },
      LOCAL,
    );
    assert.match(resolution.kind === "refused" ? resolution.reason : "resolved", want);
  });
}

test("resolveChain() keeps the resolver of a split of weight 0 apart, if it can be used", () => {
  const chain = rich();
  const [first = "", second = ""] = Object.keys(chain.nodes).filter((id) =>
    chain.nodes[id]?.kind === "resolver"
  );
  const broken: ChainNode = {
    kind: "resolver",
    name: "y",
    target: "gone",
    connectTimeoutMs: 0,
    requestTimeoutMs: 0,
    failoverTargets: [],
    balancing: { policy: "" },
  };
  const splits = [leg(0, second), leg(0, "resolver:y"), leg(100, first)];
  const { routes, resolvers, unweighted } = resolved({
    ...chain,
    startNode: "splitter:x",
    nodes: {
      ...chain.nodes,
      "splitter:x": { kind: "splitter", name: "x", splits },
      "resolver:y": broken,
    },
  });
  assert.deepEqual(routes.map((route) => route.splits.map(({ resolver }) => resolver)), [[first]]);
  assert.deepEqual([...unweighted], [second]);
  assert.deepEqual([...resolvers.keys()].sort(), [first, second].sort());
});

test("resolveChain() refuses a router for protocol tcp", () => {
  const resolution = resolveChain({ ...rich(), protocol: "tcp" }, LOCAL);
  assert.match(resolution.kind === "refused" ? resolution.reason : "", /plain TCP connections/);
});

for (const every of [1, 2, 3, 13]) {
  test(`pickSplit() follows the weights in a sample of one request in ${every}`, () => {
    const random = seededRandom(7);
    const splits = [{ weight: 8_950 }, { weight: 1_000 }, { weight: 49 }, { weight: 1 }];
    for (let start = 0; start < 20; start++) {
      const chance = evenChance(random);
      const counts = new Map<number, number>();
      for (let count = 0; count < 10_000 * every; count++) {
        const weight = pickSplit(splits, chance)?.weight ?? 0;
        if (count % every === 0) counts.set(weight, (counts.get(weight) ?? 0) + 1);
      }
      for (const { weight } of splits) {
        const got = counts.get(weight) ?? 0;
        assert.ok(Math.abs(got - weight) <= 10, `${weight}: ${got}`);
      }
    }
  });
}

for (
  const [at, want] of [[0, 1], [0.0099, 1], [0.01, 99], [0.999999, 99]] as const
) {
  test(`pickSplit() finds ${want} at ${at}`, () => {
    assert.equal(pickSplit([{ weight: 1 }, { weight: 99 }], () => at)?.weight, want);
  });
}
