import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { ISSUER, makeIssuer } from "../../../test/kit/certs/tokens.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  chainOf,
  httpRules,
  intention,
  policyOf,
  snapshotOf,
  targetOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import { DEFAULT_OUTLIER } from "../../balance/mod.ts";
import type { Permission } from "../../policy/mod.ts";
import type { ChainPart, PluginUse, Snapshot } from "../../snapshot/mod.ts";
import type { ExplainQuery, Explanation } from "./explanation.ts";

const CA = createAuthority();
const local = { kind: "tcp", host: "127.0.0.1", port: 8080 } as const;
const permission = (action: Permission["action"], prefix: string, rest = {}): Permission => ({
  action,
  path: { kind: "prefix", value: prefix },
  methods: [],
  headers: [],
  ...rest,
});
const use = (plugin: string, config: unknown = {}): PluginUse => ({
  plugin,
  config,
  onFailure: "refuse",
  at: `upstreams[0].plugins ${plugin}`,
});
const ROLE = {
  name: "x-role",
  kind: "regex",
  value: "ad.*",
  ignoreCase: false,
  invert: false,
} as const;

/** Requests to `/admin` are split between an old and a new version, and may be retried. */
const ROUTED: ChainPart = {
  version: 1,
  routes: [
    {
      name: "routes[0]",
      service: "cache",
      match: {
        path: { kind: "prefix", value: "/admin" },
        ignoreCase: false,
        methods: ["GET", "PUT"],
        headers: [{ ...ROLE }],
        query: [],
      },
      splits: [
        { weight: 9_000, resolver: "old" },
        { weight: 1_000, resolver: "new", plugins: { timeout: { requestTimeoutMs: 300 } } },
      ],
      hash: [],
      plugins: { retry: { numRetries: 3, retryOn: ["5xx"] }, timeout: { requestTimeoutMs: 700 } },
    },
    {
      name: "default",
      service: "cache",
      match: null,
      plugins: {},
      hash: [
        { kind: "header", name: "x-user", terminal: false },
        { kind: "source", terminal: false },
      ],
      splits: [{ weight: 1, resolver: "kept" }],
    },
  ],
  resolvers: {
    old: { targets: ["cache", "spare"], balancing: { kind: "random" }, outlier: DEFAULT_OUTLIER },
    kept: { targets: ["cache"], balancing: { kind: "maglev" }, outlier: DEFAULT_OUTLIER },
    new: {
      targets: ["v2"],
      balancing: { kind: "least_request", choiceCount: 2 },
      outlier: DEFAULT_OUTLIER,
    },
  },
};

const MESH = snapshotOf({
  ca: CA,
  service: "db",
  local,
  upstreams: [
    {
      name: "cache",
      http: httpRules("http", { requestTimeoutMs: 9_000 }),
      plugins: [use("rate_limit")],
    },
    { name: "plain", bind: { kind: "tcp", host: "127.0.0.1", port: 9_191 } },
  ],
  targets: [
    targetOf({ name: "cache", uris: [], ports: [1, 2] }),
    targetOf({ name: "spare", uris: [], ports: [3] }),
    targetOf({ name: "v2", uris: [], ports: [4] }),
    targetOf({ name: "plain", uris: [], ports: [], overrides: { lack: "no instance" } }),
  ],
});
const CACHE = "service:default/default/cache";
const SNAPSHOT: Snapshot = {
  ...withInbound(MESH, { http: httpRules("http") }),
  chains: { ...MESH.chains, [CACHE]: ROUTED },
  policy: policyOf([
    {
      ...intention("web", "permissions"),
      rule: "default/web => default/db (precedence 9, permissions)",
      permissions: [
        permission("deny", "/admin"),
        permission("allow", "/", { methods: ["GET"] }),
        permission("allow", "/", { headers: [ROLE] }),
      ],
    },
    intention("batch", "allow"),
  ]),
  exposed: {
    "exposed:21500": {
      version: 1,
      bind: { kind: "tcp", host: "0.0.0.0", port: 21_500 },
      path: "/health",
      local,
      localConnectTimeoutMs: 1,
      http: httpRules("http"),
    },
  },
};
const INBOUND: ExplainQuery = {
  to: { kind: "inbound" },
  source: "web",
  method: "GET",
  host: undefined,
  path: "/",
  headers: [],
  connects: false,
};
const listenerNamed = (name: string) => ({ kind: "listener", name }) as const;
const toUpstream = (name: string, rest: Partial<ExplainQuery> = {}): ExplainQuery => ({
  ...INBOUND,
  to: { kind: "upstream", name },
  host: name,
  ...rest,
});

async function ask(question: Partial<ExplainQuery>, snapshot = SNAPSHOT): Promise<Explanation> {
  await using started = await startMemoryPath(snapshot);
  const explained = await started.path.explain({ ...INBOUND, ...question });
  assert.ok(explained?.kind === "answer", JSON.stringify(explained));
  return explained.explanation;
}

async function refusal(question: Partial<ExplainQuery>, snapshot = SNAPSHOT): Promise<string> {
  await using started = await startMemoryPath(snapshot);
  const explained = await started.path.explain({ ...INBOUND, ...question });
  assert.ok(explained && "reason" in explained, JSON.stringify(explained));
  return `${explained.kind}: ${explained.reason}`;
}

for (
  const [name, question, status, rule] of [
    ["a request that a permission allows", {}, undefined, /permission 2: allow GET \/\*\)$/],
    ["one by another method", { method: "PUT" }, 403, /no permission: default deny\)$/],
    [
      "one by its field",
      { method: "PUT", headers: ["X-Role: admin"] },
      undefined,
      /permission 3: /,
    ],
    ["a path by its normal form", { path: "/x/%2e%2e/admin?a" }, 403, /permission 1: deny/],
    ["an invalid path", { path: "/a%00" }, 400, /path is refused/],
    ["a service that an intention allows", { source: "batch", path: "/admin" }, undefined, /batch/],
    ["a service without an intention", { source: "other" }, 403, /^default deny$/],
    ["a caller without a certificate", { source: "" }, 0, /must show a certificate/],
    ["a URI of another mesh", { source: "spiffe://else/web" }, 0, /trust domain is else; .*trusts/],
  ] as const
) {
  test(`explain() ${name}`, async () => {
    const answer = await ask(question);
    assert.equal(answer.answer?.status, status, JSON.stringify(answer));
    assert.match(answer.answer?.reason ?? answer.rule, rule);
    assert.equal(answer.protocol, "http");
    assert.equal(answer.local?.address, status === undefined ? "127.0.0.1:8080" : undefined);
  });
}

test("explain() says for each permission why it does not match, until one decides", async () => {
  const { permissions, answer } = await ask({ method: "PUT" });
  const unmet = permissions.map(({ unmet }) => unmet);
  assert.deepEqual(unmet, ["path /admin*", "method GET", "header x-role"]);
  assert.equal(answer?.status, 403);
  const admin = await ask({ method: "PUT", path: "/admin" });
  assert.deepEqual(admin.permissions, [
    { permission: 1, text: "deny /admin*", unmet: null, decides: "deny" },
  ]);
});

test("explain() shows the request as it is judged, and its caller", async () => {
  const { source, request } = await ask({ path: "/a/../b?c=/../d" });
  assert.match(String(source), /^spiffe:\/\/.*\/ns\/default\/dc\/dc1\/svc\/web$/);
  assert.deepEqual(request, { method: "GET", host: "db", path: "/b?c=/../d" });
});

test("explain() judges connections of a listener that carries bytes", async () => {
  const plain = withInbound(SNAPSHOT, { http: null, authorize: "both" });
  const answer = await ask({}, plain);
  assert.deepEqual([answer.protocol, answer.answer?.status, answer.request], ["tcp", 0, null]);
  const batch = await ask({ source: "batch" }, plain);
  assert.deepEqual([batch.answer, batch.local], [null, { address: "127.0.0.1:8080", sent: null }]);
  assert.match(batch.rule, /if the agent agrees$/);
});

test("explain() follows a route to its splits, targets and endpoints", async () => {
  const answer = await ask(toUpstream("cache", { path: "/admin/a", headers: ["x-role: admin"] }));
  assert.deepEqual(answer.route, {
    name: "routes[0]",
    service: "cache",
    matches: "GET|PUT /admin* header x-role",
  });
  const splits = answer.splits.map(({ chance, balancing: { kind }, targets }) => [
    chance,
    kind,
    targets.map(({ target, endpoints }) => `${target} ${endpoints.map(({ id }) => id).join()}`),
  ]);
  assert.deepEqual(splits, [
    [0.9, "random", ["cache node-1,node-2", "spare node-3"]],
    [0.1, "least_request", ["v2 node-4"]],
  ]);
  assert.equal(answer.requestTimeoutMs, 9_000);
  assert.deepEqual(answer.limits?.requests, { taken: 0, limit: 1_024 });
});

test("explain() shows plugins in order, with their configuration on the route", async () => {
  const admin = await ask(toUpstream("cache", { path: "/admin", headers: ["x-role: admin"] }));
  assert.deepEqual(
    admin.plugins.map(({ name, phase, routeConfig }) => [name, phase, routeConfig]),
    [
      ["rate_limit", "guard", undefined],
      ["timeout", "filter", { requestTimeoutMs: 700 }],
      ["retry", "retry", { numRetries: 3, retryOn: ["5xx"] }],
    ],
  );
  assert.match(admin.unknown.join("\n"), /^rate_limit: may answer/);
  // A split may have its own configuration.
  assert.deepEqual(admin.splits.map(({ plugins }) => plugins["timeout"]), [
    { requestTimeoutMs: 700 },
    { requestTimeoutMs: 300 },
  ]);
  const other = await ask(toUpstream("cache", { path: "/admin", headers: ["x-role: none"] }));
  assert.equal(other.route?.name, "default");
  assert.deepEqual(other.splits[0]?.hashedBy, ["header x-user", "source address"]);
  assert.deepEqual(other.plugins.map(({ routeConfig }) => routeConfig), Array(3).fill(undefined));
});

test("explain() says why no endpoint can be reached", async () => {
  const { credentials: _, ...rest } = SNAPSHOT;
  const none = await ask(toUpstream("cache"), { ...rest, credentials: null });
  assert.deepEqual([none.answer?.status, none.answer?.code], [503, "not_ready"]);
  const { [CACHE]: _chain, ...chains } = SNAPSHOT.chains;
  const nowhere = await ask(toUpstream("cache"), { ...SNAPSHOT, chains });
  assert.equal(nowhere.splits[0]?.lack, 'Consul has not said yet where "cache" is');
});

test("explain() verifies the tokens of the request", async () => {
  const issuer = await makeIssuer();
  const { jwks } = issuer;
  const okta = { issuer: ISSUER, jsonWebKeySet: { local: { jwks } } };
  const tokens = use("jwt_auth", { providers: { okta } });
  const snapshot = {
    ...withInbound(SNAPSHOT, { tokens }),
    policy: policyOf([{
      ...intention("web", "allow"),
      tokens: [{ provider: "okta", claims: [] }],
    }]),
  };
  const none = await ask({}, snapshot);
  assert.deepEqual([none.answer?.status, none.permissions], [403, []]);
  assert.match(none.rule, /without a token of okta$/);
  const headers = [`authorization: Bearer ${await issuer.sign()}`];
  assert.equal((await ask({ headers }, snapshot)).answer, null);
});

test("explain() shows the request as it is sent on each split of its route", async () => {
  const rewriting: ChainPart = {
    ...ROUTED,
    routes: ROUTED.routes.map((route) => ({
      ...route,
      plugins: { path_rewrite: { prefix: "/admin", to: "/new" } },
      splits: route.splits.map(({ plugins: _, ...split }) => ({
        ...split,
        plugins: split.resolver === "new"
          ? { redirect: { rules: [{ to: { host: "else" } }] } }
          : { path_rewrite: { prefix: "/admin", to: "/new" } },
      })),
    })),
  };
  const cache = SNAPSHOT.upstreams[CACHE];
  assert.ok(cache);
  const plugins = [use("redirect", { rules: [] })];
  const snapshot: Snapshot = {
    ...SNAPSHOT,
    upstreams: { ...SNAPSHOT.upstreams, [CACHE]: { ...cache, plugins } },
    chains: { ...SNAPSHOT.chains, [CACHE]: rewriting },
  };
  const headers = ["x-role: admin"];
  const { splits, answer } = await ask(
    toUpstream("cache", { path: "/admin/a", headers }),
    snapshot,
  );
  assert.equal(answer, null);
  assert.deepEqual(splits.map(({ sent, answer }) => [sent?.path, answer?.status, answer?.reason]), [
    ["/new/a", undefined, undefined],
    [undefined, 301, "the plugin redirect answers: it is sent to http://else/admin/a"],
  ]);
  const other = await ask(toUpstream("cache", { path: "/admin../a", headers }), snapshot);
  assert.deepEqual(other.splits.map(({ answer }) => answer?.status), [undefined, 301]);
});

for (
  const [name, change, want] of [
    ["no instance", { endpoints: [], lack: "none is registered" }, [
      503,
      "no_endpoint",
      "no healthy instance: none is registered",
    ]],
    ["no place for requests", { maxRequests: 0 }, [
      503,
      "limit_reached",
      "limits.max_concurrent_requests is 0",
    ]],
  ] as const
) {
  test(`explain() shows the response of a request if there is ${name}`, async () => {
    const { targets } = SNAPSHOT;
    const [id = "", target] = Object.entries(targets).find(([, { key }]) => key === "v2") ?? [];
    assert.ok(target);
    const cache = SNAPSHOT.upstreams[CACHE];
    assert.ok(cache);
    const snapshot: Snapshot = {
      ...SNAPSHOT,
      upstreams: { ...SNAPSHOT.upstreams, [CACHE]: { ...cache, ...change } },
      targets: { ...targets, [id]: { ...target, ...change } },
      chains: { ...SNAPSHOT.chains, [CACHE]: chainOf({ targets: ["v2"] }) },
    };
    const { answer } = await ask(toUpstream("cache"), snapshot);
    assert.deepEqual([answer?.status, answer?.code, answer?.reason], want);
    const headers = ["content-type: application/grpc"];
    const grpc = await ask(toUpstream("cache", { headers, method: "POST" }), snapshot);
    assert.equal(grpc.answer?.grpcStatus, 14);
  });
}

test("explain() connects to the application, and says that nothing listens", async () => {
  await using started = await startMemoryPath(SNAPSHOT);
  const explaining = started.path.explain({ ...INBOUND, connects: true });
  await settle();
  started.engine.lastDial.fail();
  const refused = await explaining;
  assert.ok(refused?.kind === "answer");
  const { answer } = refused.explanation;
  assert.deepEqual([answer?.status, answer?.code], [503, "local_refused"]);
  assert.match(answer?.reason ?? "", /127\.0\.0\.1:8080: .*does it run\?$/);
  const again = started.path.explain({ ...INBOUND, connects: true });
  await settle();
  started.engine.lastDial.connect();
  const found = await again;
  assert.ok(found?.kind === "answer");
  assert.equal(found.explanation.answer, null);
});

test("explain() connects to every instance, and passive health does not count that", async () => {
  await using started = await startMemoryPath(SNAPSHOT);
  const question = { ...toUpstream("cache"), connects: true };
  const outcome = async (...fates: readonly string[]) => {
    const before = started.engine.dials.length;
    const explaining = started.path.explain(question);
    await settle();
    const dials = started.engine.dials.slice(before);
    assert.equal(dials.length, fates.length);
    for (const [at, fate] of fates.entries()) {
      if (fate === "fail") dials[at]?.fail();
    }
    // Instances that do not answer.
    await started.clock.advance(3_000);
    const explained = await explaining;
    assert.ok(explained?.kind === "answer");
    const { answer, splits: [split] } = explained.explanation;
    const endpoints = split?.targets.flatMap(({ endpoints }) => endpoints) ?? [];
    assert.deepEqual(endpoints.map(({ failures }) => failures), [0, 0]);
    return { answer, unreachable: endpoints.map(({ unreachable }) => unreachable) };
  };
  const { answer, unreachable } = await outcome("fail", "silent");
  assert.deepEqual([answer?.status, answer?.code], [503, "endpoint_timed_out"]);
  assert.match(unreachable[0] ?? "", /refused/);
  assert.equal(unreachable[1], "no connection after 2000 ms");
});

test("explain() distinguishes an expired, a foreign, a malformed and a missing token", async () => {
  const issuer = await makeIssuer();
  const { jwks } = issuer;
  const okta = { issuer: ISSUER, jsonWebKeySet: { local: { jwks } } };
  const snapshot = {
    ...withInbound(SNAPSHOT, { tokens: use("jwt_auth", { providers: { okta } }) }),
    policy: policyOf([{
      ...intention("web", "permissions"),
      rule: "web => db (permissions)",
      permissions: [permission("allow", "/", { tokens: [{ provider: "okta", claims: [] }] })],
    }]),
  };
  const faultOf = async (...headers: readonly string[]) => {
    const { answer, tokens, permissions } = await ask({ headers }, snapshot);
    assert.equal(answer?.status, 403);
    assert.deepEqual(permissions.map(({ decides }) => decides), ["deny"]);
    return tokens.join();
  };
  const bearer = (token: string) => `authorization: Bearer ${token}`;
  assert.equal(await faultOf(), "okta: Jwt is missing");
  assert.equal(await faultOf(bearer(await issuer.sign({ exp: 1 }))), "okta: Jwt is expired");
  const other = bearer(await issuer.sign({ iss: "other" }));
  assert.equal(await faultOf(other), "okta: Jwt issuer is not configured");
  assert.match(await faultOf(bearer("abc")), /^okta: Jwt is not in the form of /);
});

test("explain() finds an upstream by its name with a port, and by its id", async () => {
  for (const name of ["plain:80", "service:default/default/plain"]) {
    assert.equal((await ask(toUpstream(name))).listener, "service:default/default/plain");
  }
});

test("explain() finds an upstream by its address, and says why a target has no endpoint", async () => {
  const answer = await ask(toUpstream("127.0.0.1:9191"));
  assert.deepEqual([answer.listener, answer.protocol], ["service:default/default/plain", "tcp"]);
  assert.equal(answer.splits[0]?.targets[0]?.lack, "no instance");
});

test("explain() says why an endpoint is excluded", async () => {
  const outlier = { ...DEFAULT_OUTLIER, maxFailures: 1 };
  const chain = chainOf({ targets: ["v2"], outlier });
  const chains = { ...SNAPSHOT.chains, "service:default/default/plain": chain };
  await using started = await startMemoryPath({ ...SNAPSHOT, chains });
  started.engine.call(9_191);
  started.engine.lastDial.fail();
  const explained = await started.path.explain(toUpstream("plain"));
  assert.ok(explained?.kind === "answer");
  const [endpoint] = explained.explanation.splits[0]?.targets[0]?.endpoints ?? [];
  assert.ok(endpoint && endpoint.ejectedForMs > 0, JSON.stringify(endpoint));
});

test("explain() knows the one path of an exposed listener", async () => {
  const to = listenerNamed("exposed:21500");
  assert.equal((await ask({ to, path: "/health?now" })).answer, null);
  const other = await ask({ to, path: "/healthy" });
  assert.deepEqual([other.answer?.status, other.answer?.code], [404, "route_not_found"]);
});

test("explain() finds the service that has a host, and the routes behind it", async () => {
  const edges: Snapshot["edges"] = {
    "ingress:8080": {
      version: 1,
      id: "ingress:8080",
      http: httpRules("http"),
      plugins: [],
      listener: null,
      bind: { kind: "tcp", host: "0.0.0.0", port: 8080 },
      hosts: [{
        names: ["*.shop.example"],
        upstream: CACHE,
        requestHeaders: { remove: [], add: [], set: [["x-role", "admin"]] },
      }],
    },
  };
  const snapshot = { ...SNAPSHOT, edges };
  const found = await ask(toUpstream("a.shop.example:8080", { path: "/admin" }), snapshot);
  assert.deepEqual([found.listener, found.route?.name], ["ingress:8080", "routes[0]"]);
  const to = listenerNamed("ingress:8080");
  const other = await ask({ to, host: "b.example" }, snapshot);
  assert.deepEqual([other.answer?.status, other.answer?.code], [404, "route_not_found"]);
});

for (
  const [name, question, want] of [
    ["another listener", { to: listenerNamed("x") }, /^unknown: .*"x"; there is: inbound/],
    ["another upstream", toUpstream("x"), /^unknown: .*upstream "x"; there is: cache plain$/],
    ["an invalid method", { method: "G T" }, /^invalid: the method "G T"/],
    ["a path with a space", { path: "/a b" }, /^invalid: the path "\/a b"/],
    ["a header without a name", { headers: [": secret"] }, /^invalid: a header .* begins ""$/],
    ["a header over two lines", { headers: ["x: a\nb"] }, /^invalid: a header .* begins "x"$/],
  ] as [string, Partial<ExplainQuery>, RegExp][]
) {
  test(`explain() refuses ${name}`, async () => {
    assert.match(await refusal(question), want);
  });
}
