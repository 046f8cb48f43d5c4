/** What the agent says about HTTP, as a snapshot has it, and how its changes are followed. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ScriptedAgent } from "../../../test/kit/consul/scripted_agent_watches.ts";
import { SourceRig } from "../../../test/kit/consul/snapshot_source.ts";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import type { ChainSplit, RouteDestination, RouterRoute } from "../../chain/mod.ts";
import { ProxyError } from "../../base/mod.ts";
import type { Defaults, DiscoveryChain, Mesh, MeshHttp } from "../../consul/mod.ts";
import { type HttpRules, targetKeysOf, type UpstreamPart } from "../../snapshot/mod.ts";

const CA = facts.authority();
const DB = "service:default/default/db";
const RULES: MeshHttp = {
  sanitizesForwardedClientCert: true,
  normalizesPaths: false,
  mergesSlashes: true,
  escapedSlashesAction: "REJECT_REQUEST",
  underscoresAction: "DROP_HEADER",
};

/** A service `web` with its upstream `db`; everything is answered. */
function agentOf(protocol: string, chain: DiscoveryChain = facts.chain(facts.target("db"))) {
  return new ScriptedAgent()
    .answer("registration", facts.registration({ protocol }))
    .answer("leaf", facts.leafOf(CA))
    .answer("roots", facts.rootsOf(CA))
    .answer("intentions", [])
    .answer("default policy", "deny")
    .answer("mesh entry", null)
    .chain("db", chain)
    .health("db", [facts.instance("db")]);
}

function chainOf(protocol: string, requestTimeoutMs = 0): DiscoveryChain {
  const chain = facts.chain(facts.target("db"));
  const [[name, node] = []] = Object.entries(chain.nodes);
  assert.ok(name !== undefined && node?.kind === "resolver");
  return { ...chain, protocol, nodes: { [name]: { ...node, requestTimeoutMs } } };
}

const inbound = (rig: SourceRig): HttpRules | null | undefined => rig.last.inbound["inbound"]?.http;
const db = (rig: SourceRig): UpstreamPart | undefined => rig.last.upstreams[DB];

test("max_request_headers_kb counts for upstreams and exposed paths, too", async () => {
  await using rig = await new SourceRig(agentOf("http", chainOf("http"))).start();
  assert.equal(db(rig)?.http?.headBytes, 60 * 1_024);
  const exposed = [{ listenerPort: 21_500, path: "/", localPort: 1, protocol: "http" }];
  rig.agent.answer(
    "registration",
    facts.registration({ protocol: "http", headBytes: 96 * 1_024, exposed }),
  );
  await rig.settle();
  assert.equal(db(rig)?.http?.headBytes, 96 * 1_024);
  assert.equal(rig.last.exposed["exposed:21500"]?.http.headBytes, 96 * 1_024);
});

test("the protocol of the service is followed, and what requests may be", async () => {
  await using rig = await new SourceRig(agentOf("tcp")).start();
  assert.equal(inbound(rig), null);
  rig.agent.answer(
    "registration",
    facts.registration({
      protocol: "http",
      localRequestTimeoutMs: 700,
      localIdleTimeoutMs: 0,
      headBytes: 2_048,
      showDenials: "rule",
    }),
  );
  await rig.settle();
  const { path: _, ...rules } = inbound(rig) ?? {};
  assert.deepEqual(rules, {
    protocol: "http",
    sanitizeForwardedClientCert: false,
    headBytes: 2_048,
    requestTimeoutMs: 700,
    streamIdleTimeoutMs: 0,
    showDenials: "rule",
  });
});

test("what an entry changes in the registration counts with the rest of the entry", async () => {
  const registered = (headBytes: number) => facts.registration({ protocol: "http", headBytes });
  const agent = agentOf("http").answer("registration", registered(60_000));
  await using rig = await new SourceRig(agent).start();
  const lua = { name: "builtin/lua", arguments: {} };
  const required: Defaults = { extensions: [{ ...lua, required: true }] };
  const optional: Defaults = { extensions: [{ ...lua, required: false }] };
  // One write; the merged registration is seen before the entry that it was merged from.
  agent.holds("service-defaults", required).answer("registration", registered(1_000));
  await rig.settle();
  assert.equal(inbound(rig)?.headBytes, 60_000);
  assert.match(rig.source.refused[0]?.reason ?? "", /builtin\/lua.*keeps its settings from before/);
  agent.answer("service-defaults", required);
  await rig.settle();
  assert.equal(inbound(rig)?.headBytes, 60_000);
  // The later of two registrations that come together is taken.
  agent.holds("service-defaults", optional).answer("registration", registered(2_000))
    .answer("registration", registered(3_000));
  await rig.settle();
  assert.equal(inbound(rig)?.headBytes, 3_000);
});

test("an answer about an entry that is older than what its watch has seen is asked again", async () => {
  const registered = (headBytes: number) => facts.registration({ protocol: "http", headBytes });
  const lua = { name: "builtin/lua", arguments: {} };
  const required: Defaults = { extensions: [{ ...lua, required: true }] };
  const optional: Defaults = { extensions: [{ ...lua, required: false }] };
  await using rig = await new SourceRig(agentOf("http")).start();
  const { agent } = rig;
  const own = agent.askDefaults.bind(agent);
  const late = Promise.withResolvers<Defaults | null>();
  agent.askDefaults = (request) =>
    request.kind === "service-defaults" ? late.promise : own(request);
  agent.answer("registration", registered(1_000));
  await rig.settle();
  agent.answer("service-defaults", optional);
  await rig.settle();
  agent.askDefaults = own;
  late.resolve(required);
  await rig.settle();
  assert.equal(inbound(rig)?.headBytes, 1_000);
  assert.deepEqual(rig.source.refused, []);
});

test("a registration is taken although its entries cannot be read", async () => {
  await using rig = await new SourceRig(agentOf("http")).start();
  rig.agent.askDefaults = () => Promise.reject(new ProxyError("agent_forbidden", "no"));
  rig.agent.answer("registration", facts.registration({ protocol: "http", headBytes: 1_000 }));
  await rig.settle();
  assert.equal(inbound(rig)?.headBytes, 1_000);
});

test("a registration whose entries are still being read is not taken after close()", async () => {
  const rig = await new SourceRig(agentOf("http")).start();
  const late = Promise.withResolvers<null>();
  rig.agent.askDefaults = () => late.promise;
  rig.agent.answer("registration", facts.registration({ upstreams: [facts.declaration("cache")] }));
  await rig.source.close();
  const started = rig.agent.started.length;
  late.resolve(null);
  await rig.settle();
  assert.equal(rig.agent.started.length, started);
});

test("an unknown protocol is refused by name, and not treated as HTTP", async () => {
  await using rig = await new SourceRig(agentOf("http3", chainOf("quic"))).start();
  assert.deepEqual([inbound(rig), db(rig)?.http], [null, null]);
  assert.deepEqual(rig.source.refused.map(({ what }) => what).sort(), [
    `protocol of upstream ${DB}`,
    "protocol of web",
  ]);
  const reasons = rig.source.refused.map(({ reason }) => reason).join("\n");
  assert.match(reasons, /"http3" is not known.*write tcp, http, http2/);
});

test("the mesh entry's rules are followed, and what of them is unknown changes nothing", async () => {
  await using rig = await new SourceRig(agentOf("http")).start();
  const mesh = async (value: Mesh | null) => {
    rig.agent.answer("mesh entry", value);
    await rig.settle();
    const { path, sanitizeForwardedClientCert } = inbound(rig) ?? {};
    return [path, sanitizeForwardedClientCert];
  };
  const before = await mesh(null);
  const strict = await mesh({ http: RULES });
  assert.deepEqual(strict, [{
    normalize: false,
    mergeSlashes: true,
    escapedSlashes: "reject",
    underscores: "drop",
  }, true]);
  assert.deepEqual(await mesh({ http: { ...RULES, underscoresAction: "FOLD" } }), strict);
  assert.equal(rig.source.refused[0]?.what, "mesh HTTP");
  assert.deepEqual(await mesh({}), before);
  assert.deepEqual(rig.source.refused, []);
});

test("an upstream has its chain's protocol and the resolver's request timeout", async () => {
  await using rig = await new SourceRig(agentOf("tcp", chainOf("grpc", 900))).start();
  assert.deepEqual([db(rig)?.http?.protocol, db(rig)?.http?.requestTimeoutMs], ["grpc", 900]);
  assert.equal(db(rig)?.maxRequests, 1_024);
  rig.agent.chain("db", chainOf("tcp"));
  await rig.settle();
  assert.equal(db(rig)?.http, null);
});

test("a protocol for an upstream requests another chain, and has no effect before its answer", async () => {
  await using rig = await new SourceRig(agentOf("tcp", chainOf("http"))).start();
  const upstreams = [facts.declaration("db", { protocol: "tcp", maxRequests: 3 })];
  rig.agent.answer("registration", facts.registration({ upstreams }));
  await rig.settle();
  assert.deepEqual([db(rig)?.http?.protocol, db(rig)?.maxRequests], ["http", 3]);
  rig.agent.chain("db as tcp", chainOf("tcp"));
  await rig.settle();
  assert.equal(db(rig)?.http, null);
});

test("a prepared query has its declaration's protocol", async () => {
  const id = "prepared_query:any-db";
  const kind = "prepared_query" as const;
  const upstreams = [facts.declaration("any-db", { id, kind, protocol: "http2" })];
  const agent = agentOf("tcp").answer("registration", facts.registration({ upstreams }))
    .query("any-db", { service: "db", datacenter: "dc1", instances: [facts.instance("db")] });
  await using rig = await new SourceRig(agent).start();
  assert.equal(rig.last.upstreams[id]?.http?.protocol, "http2");
});

/** A chain of HTTP with a route for `/v2`, which leads to another service. */
function routedTo(service: string, asks: Partial<RouteDestination> = {}): DiscoveryChain {
  const http = chainOf("http");
  const other = facts.chain(facts.target(service));
  const last: RouterRoute = {
    match: null,
    destination: { ...NOTHING_ASKED, service: "db" },
    next: http.startNode,
    unknown: [],
  };
  const first: RouterRoute = {
    match: {
      path: { kind: "prefix", value: "/v2" },
      ignoreCase: false,
      methods: [],
      headers: [],
      query: [],
    },
    destination: { ...NOTHING_ASKED, service, ...asks },
    next: other.startNode,
    unknown: [],
  };
  return {
    ...http,
    startNode: "router:db",
    nodes: {
      ...http.nodes,
      ...other.nodes,
      "router:db": { kind: "router", name: "db", routes: [first, last] },
    },
    targets: { ...http.targets, ...other.targets },
  };
}

const NOTHING_ASKED: RouteDestination = {
  service: "",
  prefixRewrite: "",
  requestTimeoutMs: 0,
  idleTimeoutMs: 0,
  retries: 0,
  retryOnConnectFailure: false,
  retryOn: [],
  retryOnStatuses: [],
  requestHeaders: null,
  responseHeaders: null,
};

test("an upstream's routes lead to their services, with what they ask of plugins", async () => {
  const requestHeaders = { remove: [], set: { "x-new": "1" }, add: {} };
  const agent = agentOf(
    "tcp",
    routedTo("db2", {
      requestHeaders,
      prefixRewrite: "/",
      retries: 2,
      retryOn: ["5xx"],
      retryOnStatuses: [429],
      requestTimeoutMs: 900.5,
      idleTimeoutMs: -1,
    }),
  )
    .health("db2", [facts.instance("db2")]);
  await using rig = await new SourceRig(agent).start();
  assert.equal(db(rig)?.http?.protocol, "http");
  const { routes = [], resolvers = {} } = rig.last.chains[DB] ?? {};
  assert.deepEqual(routes.map(({ name, service, plugins }) => [name, service, plugins]), [
    ["routes[0]", "db2", {
      header_rules: { request: requestHeaders },
      path_rewrite: { prefix: "/v2", to: "/" },
      retry: { numRetries: 2, retryOn: ["5xx"], retryOnStatusCodes: [429] },
      timeout: { requestTimeoutMs: 901, idleTimeoutMs: 0 },
    }],
    ["default", "db", {}],
  ]);
  const leadsTo = routes.map(({ splits }) =>
    splits.map(({ weight, resolver }) => [weight, resolvers[resolver]?.targets.join()])
  );
  assert.deepEqual(leadsTo, [
    [[10_000, `${DB}#db2.default.default.dc1`]],
    [[10_000, `${DB}#db.default.default.dc1`]],
  ]);
  assert.deepEqual(rig.source.refused, []);
});

/** {@link routedTo} with two ways to `db2`, one of which has changes of its own. */
function splitTo(service: string, changes: Partial<ChainSplit>): DiscoveryChain {
  const chain = routedTo(service, { requestHeaders: { remove: ["a"], set: {}, add: {} } });
  const router = chain.nodes["router:db"];
  assert.ok(router?.kind === "router");
  const [first, last] = router.routes;
  assert.ok(first && last);
  const split = { next: first.next, unknown: [], requestHeaders: null, responseHeaders: null };
  const splits = [{ ...split, weight: 90 }, { ...split, ...changes, weight: 10 }];
  const routes = [{ ...first, next: "splitter:db2" }, { ...last, next: "splitter:db2" }];
  return {
    ...chain,
    nodes: {
      ...chain.nodes,
      "router:db": { ...router, routes },
      "splitter:db2": { kind: "splitter", name: "db2", splits },
    },
  };
}

test("a split has its own changes of headers besides its route's", async () => {
  const responseHeaders = { remove: [], set: {}, add: { "x-leg": "%PROTOCOL%" } };
  const agent = agentOf("tcp", splitTo("db2", { responseHeaders }))
    .health("db2", [facts.instance("db2")]);
  await using rig = await new SourceRig(agent).start();
  assert.deepEqual(rig.source.refused, []);
  const request = { remove: ["a"], set: {}, add: {} };
  const split = { response: responseHeaders };
  assert.deepEqual(
    rig.last.chains[DB]?.routes.map(({ splits }) =>
      splits.map(({ weight, plugins }) => [weight, plugins])
    ),
    [
      [[9_000, undefined], [1_000, { header_rules: { request, split } }]],
      [[9_000, undefined], [1_000, { header_rules: { split } }]],
    ],
  );
});

test("a split with an unknown setting leaves the last chain in force, and is named", async () => {
  const agent = agentOf("tcp", chainOf("http"));
  await using rig = await new SourceRig(agent).start();
  const before = rig.last.chains[DB];
  const requestHeaders = { remove: [], set: { a: "%LUCK%" }, add: {} };
  agent.chain("db", splitTo("db2", { requestHeaders }));
  await rig.settle();
  assert.equal(rig.last.chains[DB], before);
  assert.match(
    rig.source.refused[0]?.reason ?? "",
    /service-splitter "db2": Splits\[1\]\.RequestHeaders\.Set\["a"\]: it has the operator LUCK/,
  );
});

for (
  const [asks, reason] of [
    [{ prefixRewrite: "new" }, /PrefixRewrite: "new" must be a path/],
    [{ retryOn: ["luck"] }, /Destination\.RetryOn: "luck" is not known/],
  ] as [Partial<RouteDestination>, RegExp][]
) {
  test(`a route with ${Object.keys(asks)} leaves the last chain in force, and is named`, async () => {
    const agent = agentOf("tcp", chainOf("http"));
    await using rig = await new SourceRig(agent).start();
    const before = rig.last.chains[DB];
    agent.chain("db", routedTo("db2", asks));
    await rig.settle();
    assert.equal(rig.last.chains[DB], before);
    assert.match(rig.source.refused[0]?.reason ?? "", reason);
    assert.match(rig.source.refused[0]?.reason ?? "", /its last usable chain stays in force/);
  });
}

test("routes that cannot be followed from the start are carried as bytes, until they can", async () => {
  const agent = agentOf("tcp", routedTo("db2", { prefixRewrite: "new" }))
    .health("db2", [facts.instance("db2")]);
  agent.chain("db as tcp", chainOf("tcp"));
  await using rig = await new SourceRig(agent).start();
  assert.equal(db(rig)?.http, null);
  assert.equal(targetKeysOf(rig.last.chains[DB]).length, 1);
  assert.match(rig.source.refused[0]?.reason ?? "", /carried as they are/);
  agent.chain("db", routedTo("db2"));
  await rig.settle();
  assert.equal(db(rig)?.http?.protocol, "http");
  assert.equal(targetKeysOf(rig.last.chains[DB]).length, 2);
  assert.deepEqual(rig.source.refused, []);
  assert.ok(agent.stopped.some((key) => key.includes("db as tcp")), agent.stopped.join());
});
