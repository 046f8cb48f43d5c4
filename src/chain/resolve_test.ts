import assert from "node:assert/strict";
import { test } from "node:test";
import { type Resolution, resolveChain } from "./resolve.ts";
import type {
  ChainBalancing,
  ChainHashPolicy,
  ChainNode,
  ChainTarget,
  DiscoveryChain,
} from "./compiled_chain.ts";

const LOCAL = { datacenter: "dc1", partition: "default" };

function target(id: string, changes: Partial<ChainTarget> = {}): ChainTarget {
  return {
    id,
    name: `${id}.internal.td.consul`,
    service: "db",
    subset: "",
    namespace: "default",
    partition: "default",
    datacenter: "dc1",
    peer: "",
    meshGatewayMode: "",
    localityMode: "",
    filter: "",
    onlyPassing: false,
    connectTimeoutMs: 5_000,
    external: false,
    sni: `${id}.internal.td.consul`,
    ...changes,
  };
}

interface Shape {
  readonly targets?: readonly ChainTarget[];
  readonly primary?: string;
  readonly failover?: readonly string[];
  readonly balancing?: ChainBalancing;
  readonly connectTimeoutMs?: number;
  readonly nodes?: Record<string, ChainNode>;
  readonly startNode?: string;
}

function chain(shape: Shape = {}): DiscoveryChain {
  const targets = shape.targets ?? [target("db")];
  const resolver: ChainNode = {
    kind: "resolver",
    name: "db",
    target: shape.primary ?? "db",
    connectTimeoutMs: shape.connectTimeoutMs ?? 5_000,
    requestTimeoutMs: 0,
    failoverTargets: shape.failover ?? [],
    balancing: shape.balancing ?? { policy: "" },
  };
  return {
    service: "db",
    protocol: "tcp",
    customization: "",
    startNode: shape.startNode ?? "resolver:db",
    nodes: shape.nodes ?? { "resolver:db": resolver },
    targets: Object.fromEntries(targets.map((each) => [each.id, each])),
  };
}

function summary(resolution: Resolution): string {
  if (resolution.kind === "refused") return resolution.reason;
  const [{ targets } = { targets: [] }] = resolution.resolvers.values();
  return targets.map(({ id, connectTimeoutMs }) => `${id}@${connectTimeoutMs}`).join(" ");
}

for (
  const [name, shape, want] of [
    ["resolves to its target", {}, "db@5000"],
    [
      "follows a redirect and subset to its target",
      { primary: "v1.api", targets: [target("v1.api"), target("db")] },
      "v1.api@5000",
    ],
    [
      "puts failover targets after the primary one, in order",
      { failover: ["c", "b"], targets: [target("b"), target("c"), target("db")] },
      "db@5000 c@5000 b@5000",
    ],
    [
      "drops failover to itself and duplicates",
      { failover: ["db", "b", "b", "db"], targets: [target("b"), target("db")] },
      "db@5000 b@5000",
    ],
    [
      "gives each target its own connect timeout",
      {
        failover: ["b"],
        connectTimeoutMs: 9_000,
        targets: [
          target("db", { connectTimeoutMs: 3_000 }),
          target("b", { connectTimeoutMs: 7_000 }),
        ],
      },
      "db@3000 b@7000",
    ],
    [
      "uses the resolver's timeout for a primary target without one, not for the others",
      {
        failover: ["b"],
        connectTimeoutMs: 9_000,
        targets: [target("db", { connectTimeoutMs: 0 }), target("b", { connectTimeoutMs: 0 })],
      },
      "db@9000 b@5000",
    ],
    [
      "uses Consul's default for timeouts that are negative or not a number",
      {
        failover: ["b"],
        connectTimeoutMs: -1,
        targets: [
          target("db", { connectTimeoutMs: -1_000 }),
          target("b", { connectTimeoutMs: NaN }),
        ],
      },
      "db@5000 b@5000",
    ],
    [
      "ignores a gateway mode in its own datacenter and partition",
      { targets: [target("db", { meshGatewayMode: "local" })] },
      "db@5000",
    ],
    [
      "reads a missing partition as the default one",
      { targets: [target("db", { meshGatewayMode: "remote", partition: "" })] },
      "db@5000",
    ],
    [
      "goes directly to another datacenter with mode none",
      { targets: [target("db", { meshGatewayMode: "none", datacenter: "dc2" })] },
      "db@5000",
    ],
    [
      "goes directly to another datacenter without a mode",
      { failover: ["db2"], targets: [target("db"), target("db2", { datacenter: "dc2" })] },
      "db@5000 db2@5000",
    ],
    [
      "treats all instances equally without a locality preference",
      { targets: [target("db", { localityMode: "none" })] },
      "db@5000",
    ],
    [
      "refuses to prioritize by locality",
      { targets: [target("db", { localityMode: "failover" })] },
      /target "db" prioritizes by locality \("failover"\), which is not supported/,
    ],
    [
      "refuses a gateway to another datacenter",
      { targets: [target("db", { meshGatewayMode: "local", datacenter: "dc2" })] },
      /target "db" wants mesh gateway mode "local"; mesh gateways are not supported yet/,
    ],
    [
      "refuses a gateway to another partition",
      { targets: [target("db", { meshGatewayMode: "remote", partition: "east" })] },
      /mesh gateway mode "remote"/,
    ],
    [
      "refuses the whole chain for a gateway to a failover target",
      {
        failover: ["db2"],
        targets: [target("db"), target("db2", { meshGatewayMode: "local", datacenter: "dc2" })],
      },
      /target "db2" wants mesh gateway mode/,
    ],
    [
      "refuses a peer",
      { targets: [target("db", { peer: "east", datacenter: "" })] },
      /target "db" is in cluster peer "east"; peers are not supported yet/,
    ],
    [
      "refuses a peer to fail over to",
      {
        failover: ["far"],
        targets: [target("db"), target("far", { peer: "east", datacenter: "" })],
      },
      /peer "east"/,
    ],
    [
      "refuses a router",
      { nodes: { "resolver:db": { kind: "router", name: "db", routes: [] } } },
      /starts with a router, which plain TCP connections cannot follow/,
    ],
    [
      "refuses a splitter",
      { nodes: { "resolver:db": { kind: "splitter", name: "db", splits: [] } } },
      /starts with a splitter/,
    ],
    ["refuses a missing start node", { startNode: "x" }, /its start node "x" is missing/],
    ["refuses no start node", { startNode: "" }, /its start node "" is missing/],
    ["refuses a missing target", { primary: "x" }, /its target "x" is missing/],
    ["refuses a missing failover target", { failover: ["x"] }, /its target "x" is missing/],
    ["finds no node in inherited properties", { startNode: "constructor" }, /start node/],
    ["finds no target in inherited properties", { primary: "toString" }, /target "toString"/],
    [
      "refuses an unknown policy",
      { balancing: { policy: "psychic" } },
      /load balancer policy "psychic" is unknown/,
    ],
  ] as [string, Shape, string | RegExp][]
) {
  test(`resolveChain() ${name}`, () => {
    const resolution = resolveChain(chain(shape), LOCAL);
    if (typeof want === "string") return assert.equal(summary(resolution), want);
    assert.equal(resolution.kind, "refused");
    assert.match(summary(resolution), want);
    assert.match(summary(resolution), /^Cannot use the discovery chain of "db": /);
  });
}

test("resolveChain() compares datacenter and partition with the proxy's own", () => {
  const far = chain({ targets: [target("db", { meshGatewayMode: "local", datacenter: "dc2" })] });
  assert.equal(resolveChain(far, { datacenter: "dc2", partition: "" }).kind, "resolved");
});

for (
  const [balancing, want] of [
    [{ policy: "" }, { kind: "round_robin" }],
    [{ policy: "round_robin" }, { kind: "round_robin" }],
    [{ policy: "random" }, { kind: "random" }],
    [{ policy: "maglev" }, { kind: "maglev" }],
    [{ policy: "least_request" }, { kind: "least_request", choiceCount: 2 }],
    [{ policy: "least_request", choiceCount: 0 }, { kind: "least_request", choiceCount: 2 }],
    [{ policy: "least_request", choiceCount: 7 }, { kind: "least_request", choiceCount: 7 }],
    [{ policy: "ring_hash" }, { kind: "ring_hash", minimumSize: 1024, maximumSize: 8_388_608 }],
    [{ policy: "ring_hash", minimumRingSize: 64, maximumRingSize: 1024 }, {
      kind: "ring_hash",
      minimumSize: 64,
      maximumSize: 1024,
    }],
    [{ policy: "ring_hash", minimumRingSize: 0, maximumRingSize: 512 }, {
      kind: "ring_hash",
      minimumSize: 512,
      maximumSize: 512,
    }],
  ] as [ChainBalancing, unknown][]
) {
  test(`resolveChain() reads ${JSON.stringify(balancing)}`, () => {
    const resolution = resolveChain(chain({ balancing }), LOCAL);
    assert.equal(resolution.kind, "resolved");
    assert.deepEqual([...resolution.resolvers.values()].map((each) => each.balancing), [want]);
  });
}

const NO_POLICY: ChainHashPolicy = {
  field: "",
  name: "",
  sourceIp: false,
  terminal: false,
  cookie: null,
};
const COOKIE = { isSession: false, ttlMs: 0, path: "" };

function hashOf(policy: Partial<ChainHashPolicy>) {
  const hashPolicies = [{ ...NO_POLICY, ...policy }];
  return resolveChain(chain({ balancing: { policy: "maglev", hashPolicies } }), LOCAL);
}

for (
  const [what, policy, want] of [
    ["a header, in lower case", { field: "header", name: "X-User" }, {
      kind: "header",
      name: "x-user",
      terminal: false,
    }],
    ["a parameter", { field: "query_parameter", name: "Q", terminal: true }, {
      kind: "query",
      name: "Q",
      terminal: true,
    }],
    ["the address", { sourceIp: true }, { kind: "source", terminal: false }],
    ["a cookie", { field: "cookie", name: "a b" }, {
      kind: "cookie",
      name: "a b",
      made: null,
      terminal: false,
    }],
    ["a cookie with a path only", { cookie: { ...COOKIE, path: "/" } }, null],
    ["a session's cookie", { cookie: { ...COOKIE, isSession: true, path: "/" } }, {
      maxAgeSeconds: 0,
      path: "/",
    }],
    ["a cookie's age in whole seconds", { cookie: { ...COOKIE, ttlMs: 1_500 } }, {
      maxAgeSeconds: 1,
      path: "",
    }],
    ["an age under a second", { cookie: { ...COOKIE, ttlMs: 500 } }, {
      maxAgeSeconds: 0,
      path: "",
    }],
  ] as [string, Partial<ChainHashPolicy>, unknown][]
) {
  test(`resolveChain() reads a hash policy: ${what}`, () => {
    const resolution = hashOf(policy.cookie ? { field: "cookie", name: "c", ...policy } : policy);
    assert.ok(resolution.kind === "resolved");
    const [found] = resolution.routes[0]?.hash ?? [];
    assert.ok(found);
    assert.deepEqual(policy.cookie ? found.kind === "cookie" && found.made : found, want);
  });
}

for (
  const [policy, reason] of [
    [{ terminal: true }, /: LoadBalancer\.HashPolicies\[0\] names nothing to hash/],
    [{ field: "trailer", name: "a" }, /HashPolicies\[0\] hashes "trailer", which nobody knows/],
    [{ cookie: { ...COOKIE, ttlMs: -1 } }, /makes a cookie of a negative TTL/],
    [{ name: "a;b", cookie: { ...COOKIE, isSession: true } }, /makes a cookie of the name "a;b"/],
    [{ cookie: { ...COOKIE, ttlMs: 1, path: "/; Domain=x" } }, /of a path that it cannot have/],
    [{ cookie: { ...COOKIE, ttlMs: 1, path: "/\r\na: b" } }, /of a path that it cannot have/],
  ] as [Partial<ChainHashPolicy>, RegExp][]
) {
  test(`resolveChain() refuses to hash ${JSON.stringify(policy)}`, () => {
    const resolution = hashOf(policy.cookie ? { field: "cookie", name: "c", ...policy } : policy);
    assert.match(resolution.kind === "refused" ? resolution.reason : "", reason);
  });
}
