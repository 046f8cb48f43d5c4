import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentClient, Seen } from "../../../test/kit/consul/agent_client.ts";
import {
  type AgentRequest,
  eventually,
  fixture,
  type Reaction,
} from "../../../test/kit/consul/scripted_agent.ts";
import { readGateways } from "../find_sidecar.ts";
import { readGatewayServices, readIngressEntry } from "./ingress.ts";
import { withIngressEntry } from "./ingress_listeners.ts";
import { readRegistration, warningsOf } from "./registration.ts";
import type { Registration } from "../model/values.ts";

const IGW = readRegistration(fixture("agent_service_ingress"), "igw-1");

/** The gateway with `json` as its config entry. */
const joined = (json: unknown) => withIngressEntry(IGW, readIngressEntry(json, "igw"));
const db = { Name: "db" };
const tcp = (fields: object) => ({ Port: 8443, Protocol: "tcp", Services: [db], ...fields });
const http = (fields: object) => tcp({ Protocol: "http", ...fields });

test("readRegistration() reads an ingress gateway", () => {
  const { service, bind, upstreams, tls, ingress, warnings } = IGW;
  assert.deepEqual({ service, bind, upstreams, tls, ingress, warnings }, {
    service: "igw",
    bind: { kind: "tcp", host: "127.0.0.9", port: 0 },
    upstreams: [],
    tls: { sds_clusters: {} },
    ingress: { clusters: [{ name: "x" }], meshGatewayMode: "", edges: [], refused: [] },
    warnings: [],
  });
});

for (
  const [name, config, clusters] of [
    ["objects with commas between them", '{"name":"a"},\n{"name":"b"}', ["a", "b"]],
    ["a list", ' [{"name":"a"}]', ["a"]],
    ["nothing", "", []],
  ] as const
) {
  test(`readRegistration() reads static clusters written as ${name}`, () => {
    const { ingress, warnings } = gatewayWith(config);
    const named = clusters.map((cluster) => ({ name: cluster }));
    assert.deepEqual([ingress?.clusters, warnings], [named, []]);
  });
}

for (const written of ["{", '{"name":"a"} {}', 7, { name: "a" }]) {
  test(`readRegistration() warns of static clusters like ${JSON.stringify(written)}`, () => {
    const { ingress, warnings } = gatewayWith(written);
    assert.deepEqual(ingress?.clusters, []);
    assert.match(warnings.join(), /envoy_extra_static_clusters_json, which is ignored/);
  });
}

function gatewayWith(written: unknown): Registration {
  const json = fixture("agent_service_ingress") as { readonly Proxy: object };
  const Proxy = { ...json.Proxy, Config: { envoy_extra_static_clusters_json: written } };
  return readRegistration({ ...json, Proxy }, "igw-1");
}

test("withIngressEntry() makes an upstream of a TCP listener", () => {
  const { upstreams, ingress, warnings } = joined(fixture("config_ingress_gateway"));
  assert.deepEqual([ingress?.refused, warnings], [[], []]);
  assert.deepEqual(upstreams, [{
    id: "ingress:8443/db",
    kind: "service",
    name: "db",
    namespace: "default",
    partition: "default",
    peer: "",
    datacenter: "",
    bind: { kind: "tcp", host: "127.0.0.9", port: 8443 },
    meshGatewayMode: "",
    protocol: "tcp",
    maxConnections: 5,
    maxPending: 7,
    outlier: { maxFailures: 3, enforcingPercent: 50, intervalMs: 10_000 },
    ingressTls: {
      enabled: false,
      index: 0,
      path: ["ingress-gateway", "igw"],
      entry: {
        TLS: { Enabled: false, SDS: { ClusterName: "sds" } },
        Listeners: [{
          Port: 8443,
          TLS: { Enabled: false, SDS: { CertResource: "a" } },
          Services: [{ Name: "db", Hosts: null, TLS: undefined }],
        }],
      },
    },
  }]);
});

for (
  const [name, defaults, service, want] of [
    ["nothing", undefined, {}, [undefined, undefined, {}]],
    ["zeros as nothing", { MaxConnections: 0 }, {
      MaxPendingRequests: 0,
      PassiveHealthCheck: { MaxFailures: 2, EnforcingConsecutive5xx: 0 },
    }, [undefined, undefined, { maxFailures: 2 }]],
    [
      "the service's limits before the defaults",
      {
        MaxConnections: 5,
        MaxPendingRequests: 6,
        PassiveHealthCheck: { MaxFailures: 1 },
      },
      { MaxConnections: 7, PassiveHealthCheck: { Interval: 2e9 } },
      [7, 6, { intervalMs: 2_000 }],
    ],
  ] as const
) {
  test(`withIngressEntry() reads limits: ${name}`, () => {
    const listener = tcp({ Services: [{ ...db, ...service }] });
    const [upstream] = joined({ Defaults: defaults, Listeners: [listener] }).upstreams;
    assert.ok(upstream);
    const { maxConnections, maxPending, outlier } = upstream;
    assert.deepEqual([maxConnections, maxPending, outlier], want);
  });
}

for (
  const [name, listener, reason] of [
    ["an unknown protocol", tcp({ Protocol: "http3" }), /^its protocol "http3" is not known/],
    ["hosts of every service", http({ Services: [{ Name: "*", Hosts: ["a"] }] }), /has Hosts for/],
    ["a service twice", http({ Services: [db, db] }), /names a service twice/],
    [
      "a host twice",
      http({ Services: [db, { Name: "api", Hosts: ["DB.ingress.*"] }] }),
      /a host tw/,
    ],
    ["no service", tcp({ Services: [] }), /no service/],
    ["a service without a name", tcp({ Services: [{}] }), /no service/],
    ["several services", tcp({ Services: [db, { Name: "api" }] }), /several services/],
    ["every service", tcp({ Services: [{ Name: "*" }] }), /every service/],
    ["no port", tcp({ Port: 0 }), /no port/],
    ["a port twice", tcp({ Port: 80 }), /an earlier listener's/],
  ] as const
) {
  test(`withIngressEntry() refuses only the listener with ${name}`, () => {
    const { upstreams, ingress } = joined({
      Listeners: [tcp({ Port: 80, Protocol: "" }), listener],
    });
    assert.deepEqual(upstreams.map(({ id }) => id), ["ingress:80/db"]);
    const [refusal, ...more] = ingress?.refused ?? [];
    assert.equal(refusal?.what, `ingress listener ${listener.Port}`);
    assert.match(refusal?.reason ?? "", reason);
    assert.deepEqual(more, []);
  });
}

test("withIngressEntry() makes an edge of an HTTP listener, with an upstream for each service", () => {
  const api = { Name: "Api", Hosts: ["API.example", "*.api.example"], MaxConcurrentRequests: 4 };
  const { upstreams, ingress, warnings } = joined({
    Listeners: [http({ Protocol: "HTTP2", Services: [db, api] })],
  });
  const bind = { kind: "tcp", host: "127.0.0.9", port: 8_443 };
  assert.deepEqual(warnings, []);
  assert.deepEqual(
    upstreams.map(({ id, bind, protocol, maxRequests }) => [id, bind, protocol, maxRequests]),
    [["ingress:8443/db", null, "http2", undefined], ["ingress:8443/Api", null, "http2", 4]],
  );
  assert.ok(upstreams.every(({ ingressTls }) => ingressTls === undefined));
  const { tls, ...edge } = ingress?.edges[0] ?? {};
  assert.deepEqual([edge, tls?.enabled], [{
    id: "ingress:8443",
    bind,
    protocol: "http2",
    hosts: [
      { names: ["db.ingress.*"], upstream: "ingress:8443/db" },
      { names: ["api.example", "*.api.example"], upstream: "ingress:8443/Api" },
    ],
  }, false]);
});

test("withIngressEntry() replaces `*` by the services that Consul lists", () => {
  const Listeners = [
    http({
      Services: [{ Name: "*", MaxConnections: 3 }, { ...db, Hosts: ["api.ingress.*", "x"] }],
    }),
    http({ Port: 81, Services: [{ Name: "*" }] }),
  ];
  const entry = readIngressEntry({ Listeners }, "igw");
  const listed = (Name: string, more: object = {}) => ({
    Service: { Name },
    Port: 8443,
    Protocol: "http",
    FromWildcard: true,
    ...more,
  });
  const services = readGatewayServices([
    listed("shop"),
    listed("Pay"),
    listed("db"),
    listed("api"),
    listed("pay"),
    listed("other", { Port: 82 }),
    listed("named", { FromWildcard: false }),
  ], "igw");
  const { upstreams, ingress, warnings } = withIngressEntry(IGW, entry, {
    services,
    someHidden: true,
  });
  assert.deepEqual(upstreams.map(({ id, maxConnections }) => [id, maxConnections]), [
    ["ingress:8443/db", undefined],
    ["ingress:8443/Pay", 3],
    ["ingress:8443/shop", 3],
  ]);
  assert.deepEqual(ingress?.edges.map(({ hosts }) => hosts), [[
    { names: ["api.ingress.*", "x"], upstream: "ingress:8443/db" },
    { names: ["pay.ingress.*"], upstream: "ingress:8443/Pay" },
    { names: ["shop.ingress.*"], upstream: "ingress:8443/shop" },
  ], []]);
  assert.deepEqual(ingress?.refused, []);
  assert.match(
    warnings[0] ?? "",
    /"api" is left out of ingress listener 8443: the host api\.ingress/,
  );
  assert.match(warnings[1] ?? "", /"pay" is left out of ingress listener 8443/);
  assert.match(warnings[2] ?? "", /may not read all of them \(service:read\)/);
  assert.equal(warnings.length, 3);
});

for (
  const json of [{}, [{ Service: null }], [{ Service: {} }], [{ Service: { Name: "a" }, Port: -1 }]]
) {
  test(`readGatewayServices() refuses ${JSON.stringify(json)}`, () => {
    assert.throws(() => readGatewayServices(json, "igw"), { code: "agent_reply_invalid" });
  });
}

test("withIngressEntry() warns of hosts and headers that it cannot read", () => {
  const service = { ...db, Hosts: "db.example", RequestHeaders: "a" };
  const registration = joined({
    Listeners: [http({ Services: [service, { Name: "api", ResponseHeaders: { Set: null } }] })],
  });
  const warnings = warningsOf(registration);
  assert.deepEqual(registration.ingress?.edges[0]?.hosts, [
    { names: ["db.ingress.*"], upstream: "ingress:8443/db" },
    { names: ["api.ingress.*"], upstream: "ingress:8443/api" },
  ]);
  assert.match(
    warnings.join(),
    /RequestHeaders of Service "db" of ingress port 8443 are no header/,
  );
  assert.match(warnings.join(), /has Hosts that are no list of names/);
  assert.equal(warnings.length, 2);
});

test("withIngressEntry() reads header changes, and warns of forbidden ones", () => {
  const service = {
    ...db,
    RequestHeaders: {
      Add: { "X-From": "edge", Host: "db" },
      Set: { "x-client": "%DOWNSTREAM_REMOTE_ADDRESS%", "x-odd": "%NONE%" },
      Remove: ["X-Internal", "Content-Length"],
    },
    ResponseHeaders: { Remove: ["Server"] },
  };
  const registration = joined({ Listeners: [http({ Services: [service] })] });
  const { ingress, upstreams } = registration;
  const warnings = warningsOf(registration);
  assert.deepEqual(ingress?.edges[0]?.hosts, [{
    names: ["db.ingress.*"],
    upstream: "ingress:8443/db",
    requestHeaders: {
      remove: ["x-internal"],
      set: [["x-client", "%DOWNSTREAM_REMOTE_ADDRESS%"]],
      add: [["x-from", "edge"]],
    },
    responseHeaders: { remove: ["server"], set: [], add: [] },
  }]);
  assert.ok(!Object.keys(upstreams[0] ?? {}).some((key) => /headers|hosts/i.test(key)));
  for (
    const wanted of [/Remove "Content-Length" is left out/, /Set "x-odd" is left out: it has the/]
  ) assert.match(warnings.join("\n"), wanted);
  assert.match(warnings.join("\n"), /Add "Host" is left out: it says what is asked for/);
  assert.equal(warnings.length, 3);
});

for (
  const [name, gateway, own, enabled] of [
    ["nowhere", undefined, undefined, false],
    ["neither", { Enabled: false }, { Enabled: false }, false],
    ["the gateway", { Enabled: true }, { Enabled: false }, true],
    ["the listener", null, { Enabled: true }, true],
    ["an unreadable block", undefined, { Enabled: "yes" }, true],
  ] as const
) {
  test(`readIngressEntry() reads TLS that is enabled by ${name}`, () => {
    const entry = readIngressEntry({ TLS: gateway, Listeners: [tcp({ TLS: own })] }, "igw");
    assert.equal(entry?.listeners[0]?.tls.enabled, enabled);
  });
}

test("withIngressEntry() refuses the gateway's listeners without an entry", () => {
  const { upstreams, ingress } = joined(null);
  assert.deepEqual(upstreams, []);
  assert.match(ingress?.refused[0]?.reason ?? "", /there is none/);
});

test("readGateways() filters by kind and name", () => {
  const service = (Kind: string, ID: string, Service = "igw") => ({ Kind, ID, Service });
  const services = {
    b: service("ingress-gateway", "b"),
    a: service("ingress-gateway", "a", "Other"),
    c: service("mesh-gateway", "c"),
    d: service("", "d"),
  };
  assert.deepEqual(readGateways(services, ""), ["a", "b"]);
  assert.deepEqual(readGateways(services, "other"), ["a"]);
  assert.deepEqual(readGateways(services, "d"), []);
});

/** An agent whose entry the test sets; a wait for a newer one hangs. */
class Scripted {
  entry: Reaction = { status: 404, text: "not found", index: 5 };
  registration: unknown = fixture("agent_service_ingress");
  hash = "h1";
  names: readonly string[] | undefined;
  namesIndex = 20;

  readonly answer = ({ path, query }: AgentRequest): Reaction => {
    if (path.startsWith("/v1/agent/service/")) {
      if (query.get("hash") === this.hash) return "hang";
      return { json: this.registration, hash: this.hash };
    }
    if (path === "/v1/catalog/gateway-services/igw") return this.services(query);
    assert.equal(path, "/v1/config/ingress-gateway/igw");
    const index = typeof this.entry === "object" ? this.entry.index : undefined;
    return query.get("index") === String(index) ? "hang" : this.entry;
  };

  services(query: URLSearchParams): Reaction {
    if (!this.names || query.get("index") === String(this.namesIndex)) return "hang";
    const json = this.names.map((Name) => ({ Service: { Name }, Port: 80, FromWildcard: true }));
    return { json, index: this.namesIndex };
  }
}

test("watchRegistration() delivers a gateway with its entry, again after each change of either", async () => {
  const script = new Scripted();
  script.entry = "hang";
  await using client = await AgentClient.start(script.answer);
  const seen = new Seen<Registration>();
  const watch = client.agent.watchRegistration("igw-1", seen);
  await eventually(() => client.script.waiting === 2, "both are asked");
  assert.deepEqual(seen.values, [], "the registration is incomplete without the entry");

  script.entry = { json: { Listeners: [tcp({})] }, index: 6 };
  client.script.breakAll();
  const entries = () => seen.values.map(({ upstreams }) => upstreams.map(({ id }) => id));
  await client.passUntil(() => seen.values.length === 1, { what: "the entry" });
  assert.deepEqual(entries(), [["ingress:8443/db"]]);
  script.entry = { status: 404, text: "not found", index: 7 };
  client.script.breakAll();
  await client.passUntil(() => seen.values.length === 2, { what: "its end" });
  assert.deepEqual(entries().at(-1), []);

  script.entry = { status: 403, text: "Permission denied" };
  client.script.breakAll();
  await client.passUntil(() => watch.state.lastError?.includes("Permission") === true, {
    what: "the refusal",
  });
  assert.match(watch.state.name, /^registration igw-1: ingress entry igw$/);
  assert.equal(seen.values.length, 2, "the last entry stays");

  // The proxy is a sidecar now, so the entry is not watched any more.
  script.registration = fixture("agent_service");
  script.hash = "h2";
  client.script.breakAll();
  await client.passUntil(() => seen.values.length === 3, { what: "the sidecar" });
  assert.equal(seen.last?.ingress, undefined);
  assert.equal(client.agent.watchStates().length, 1);
  watch.stop();
  assert.deepEqual(client.agent.watchStates(), []);
});

test("watchRegistration() delivers a gateway for every service again when the services change", async () => {
  const script = new Scripted();
  script.entry = {
    json: { Listeners: [http({ Port: 80, Services: [{ Name: "*" }] })] },
    index: 6,
  };
  await using client = await AgentClient.start(script.answer);
  const seen = new Seen<Registration>();
  const watch = client.agent.watchRegistration("igw-1", seen);
  await eventually(() => client.script.waiting === 3, "all are asked");
  assert.deepEqual(seen.values, [], "the registration is incomplete without the names");

  const names = () => seen.last?.upstreams.map(({ name }) => name);
  const becomes = async (...now: readonly string[]) => {
    script.names = now;
    script.namesIndex++;
    client.script.breakAll();
    await client.passUntil(() => names()?.join() === now.join(), { what: now.join() });
  };
  await becomes("api", "db");
  await becomes("db");
  await becomes();

  script.entry = { json: { Listeners: [tcp({})] }, index: 7 };
  client.script.breakAll();
  await client.passUntil(() => names()?.join() === "db", {
    what: "an entry that names its services",
  });
  const watched = client.agent.watchStates().map((state) => state.name);
  assert.deepEqual(watched, ["registration igw-1", "registration igw-1: ingress entry igw"]);
  watch.stop();
});
