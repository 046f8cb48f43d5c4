/** Readers of the smaller replies. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { fixture } from "../../../test/kit/consul/scripted_agent.ts";
import { defaultOf, readAuthorize } from "./default_policy.ts";
import { readChain } from "./discovery_chain.ts";
import { readSidecars } from "../find_sidecar.ts";
import { readInstances, readQueryResult } from "./instances.ts";
import { readIntentions } from "./intentions.ts";
import { readLeaf, readRoots } from "./certificates.ts";
import { readMesh } from "./mesh_and_defaults.ts";

function invalid(pattern: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ProxyError);
    assert.equal(error.code, "agent_reply_invalid");
    assert.match(error.message, pattern);
    return true;
  };
}

test("readLeaf() reads certificate, key and validity", () => {
  const leaf = readLeaf(fixture("leaf"));
  assert.match(leaf.certPem, /^-----BEGIN CERTIFICATE-----/);
  assert.match(leaf.keyPem, /^-----BEGIN EC PRIVATE KEY-----/);
  assert.match(leaf.uri, /^spiffe:\/\/9da65145-.*\/ns\/default\/dc\/dc1\/svc\/web$/);
  assert.equal(leaf.notAfterMs - leaf.notBeforeMs, 72 * 3_600_000);
});

for (
  const [name, patch, pattern] of [
    ["no key", { PrivateKeyPEM: "" }, /PrivateKeyPEM/],
    ["no certificate", { CertPEM: undefined }, /CertPEM/],
    ["an invalid date", { ValidBefore: "tomorrow" }, /ValidBefore/],
    ["a number for a certificate", { CertPEM: 5 }, /CertPEM/],
  ] as const
) {
  test(`readLeaf() refuses ${name} without showing the key`, () => {
    const json = { ...fixture("leaf") as object, ...patch };
    assert.throws(() => readLeaf(json), (error) => {
      assert.doesNotMatch((error as Error).message, /PRIVATE KEY-/);
      return invalid(pattern)(error);
    });
  });
}

test("a refusal never quotes the reply, which may have a key in a wrong place", () => {
  const { PrivateKeyPEM } = fixture("leaf") as { PrivateKeyPEM: string };
  for (
    const read of [
      () => readIntentions({ web: PrivateKeyPEM }, "web"),
      () => readMesh({ TLS: { Incoming: { CipherSuites: PrivateKeyPEM } } }),
      () => readRoots({ Roots: PrivateKeyPEM }),
    ]
  ) {
    assert.throws(read, (error) => {
      assert.doesNotMatch((error as Error).message, /PRIVATE KEY/);
      return invalid(/must be a list, not a text/)(error);
    });
  }
});

test("readRoots() keeps every root, active or not", () => {
  const { roots, activeId, trustDomain } = readRoots(fixture("roots_rsa"));
  assert.equal(roots.length, 3);
  assert.deepEqual(roots.filter((root) => root.active).map((root) => root.id), [activeId]);
  assert.equal(trustDomain, trustDomain.toLowerCase());
  assert.ok(roots.every((root) => root.externalTrustDomain === trustDomain));
});

for (
  const [name, json] of [
    ["no roots", { TrustDomain: "x.consul", Roots: null }],
    ["no trust domain", { Roots: [{ RootCert: "x" }] }],
    ["a root without certificate", { TrustDomain: "x.consul", Roots: [{ ID: "a" }] }],
  ] as const
) {
  test(`readRoots() refuses ${name}`, () => assert.throws(() => readRoots(json), invalid(/roots/)));
}

test("readIntentions() keeps Consul's order and names the rules", () => {
  const rules = readIntentions(fixture("intentions_match"), "db").map(({ rule }) => rule);
  assert.deepEqual(rules, [
    "default/web => default/db (precedence 9, allow)",
    "default/* => default/db (precedence 8, deny)",
    "default/admin => default/* (precedence 6, allow)",
    "default/* => default/* (precedence 5, deny)",
  ]);
});

for (
  const [name, intention, want] of [
    ["an allow", { Action: "allow" }, "allow"],
    ["a deny", { Action: "deny" }, "deny"],
    ["permissions", { Permissions: [{ Action: "allow" }] }, "permissions"],
    ["permissions beside an action", { Action: "allow", Permissions: [{}] }, "permissions"],
    ["an unknown action as deny", { Action: "audit" }, "deny"],
    ["nothing at all as deny", {}, "deny"],
    ["empty permissions by the action", { Action: "allow", Permissions: [] }, "allow"],
    ["a JWT demand as Consul does at L4", { Action: "allow", JWT: { Providers: [] } }, "allow"],
    [
      "an allow for a sameness group as deny",
      { Action: "allow", SourceSamenessGroup: "g" },
      "deny",
    ],
  ] as const
) {
  test(`readIntentions() reads ${name}`, () => {
    const json = {
      web: [{ SourceName: "a", DestinationName: "web", Precedence: 9, ...intention }],
    };
    assert.equal(readIntentions(json, "web")[0]?.action, want);
  });
}

test("readIntentions() reads null and [] as no intentions", () => {
  assert.deepEqual(readIntentions(fixture("intentions_match_empty"), "db"), []);
  assert.deepEqual(readIntentions({ db: [] }, "db"), []);
});

test("readIntentions() refuses an answer about another service", () => {
  for (const json of [{}, { other: [] }, null, [], { db: {} }]) {
    assert.throws(() => readIntentions(json, "db"), invalid(/intentions for "db"/));
  }
});

test("readIntentions() sorts rules by precedence", () => {
  const row = (name: string, precedence: number) => ({ SourceName: name, Precedence: precedence });
  const got = readIntentions({ web: [row("*", 8), row("a", 9), row("b", 9)] }, "web");
  assert.deepEqual(got.map(({ source }) => source.name), ["a", "b", "*"]);
});

test("readIntentions() keeps the peer of a source", () => {
  const all = readIntentions(fixture("intentions_match_l7"), "api");
  assert.ok(all.some(({ source }) => source.peer !== ""));
});

test("readChain() reads the default chain", () => {
  const chain = readChain(fixture("chain_default"));
  const node = chain.nodes[chain.startNode];
  assert.ok(node?.kind === "resolver");
  assert.equal(node.connectTimeoutMs, 5_000);
  const target = chain.targets[node.target];
  assert.equal(target?.service, "nothing");
  assert.match(target?.sni ?? "", /^nothing\.default\.dc1\.internal\.9da65145-/);
});

test("readChain() reads subsets, failover and balancing of a chain that was compiled for TCP", () => {
  const chain = readChain(fixture("chain_rich_override_tcp"));
  const node = chain.nodes[chain.startNode];
  assert.ok(node?.kind === "resolver");
  assert.equal(chain.protocol, "tcp");
  assert.equal(node.connectTimeoutMs, 3_000);
  assert.deepEqual(node.failoverTargets, [
    "v1.api.default.default.dc2",
    "v1.api.default.default.dc3",
  ]);
  const none = { field: "", name: "", sourceIp: false, terminal: false, cookie: null };
  const cookie = { isSession: false, ttlMs: 0, path: "" };
  assert.deepEqual(node.balancing, {
    policy: "ring_hash",
    minimumRingSize: 64,
    maximumRingSize: 1024,
    hashPolicies: [
      { ...none, field: "header", name: "x-user", terminal: true },
      { ...none, field: "cookie", name: "sess", cookie: { ...cookie, ttlMs: 60_000, path: "/p" } },
      { ...none, field: "cookie", name: "s2", cookie: { ...cookie, isSession: true } },
      { ...none, field: "query_parameter", name: "q" },
      { ...none, sourceIp: true },
    ],
  });
  const target = chain.targets[node.target];
  assert.equal(target?.subset, "v1");
  assert.equal(target?.filter, "Service.Meta.version == v1");
  assert.equal(target?.meshGatewayMode, "local");
});

test("readChain() reads routers and splitters", () => {
  for (const name of ["chain_rich", "chain_invalid_regex"]) {
    const chain = readChain(fixture(name));
    assert.equal(chain.nodes[chain.startNode]?.kind, "router");
  }
});

test("readChain() reads a peer target, which has no SNI and no datacenter", () => {
  const { targets } = readChain(fixture("chain_failover_targets"));
  const target = Object.values(targets).find(({ peer }) => peer === "east");
  assert.deepEqual([target?.sni, target?.datacenter], ["", ""]);
});

for (
  const [written, want] of [["1m30s", 90_000], ["-1s", 5_000], ["0s", 5_000], [7, 7e-6]] as const
) {
  test(`readChain() reads a connect timeout of ${written}`, () => {
    const nodes = { n: { Type: "resolver", Resolver: { ConnectTimeout: written, Target: "t" } } };
    const chain = readChain({ Chain: { StartNode: "n", Nodes: nodes, Targets: null } });
    const node = chain.nodes["n"];
    assert.equal(node?.kind === "resolver" && node.connectTimeoutMs, want);
  });
}

for (
  const [name, json] of [
    ["no chain", {}],
    ["an invalid duration", { Chain: { Targets: { t: { ConnectTimeout: "soon" } } } }],
    ["an unknown node", { Chain: { Nodes: { n: { Type: "mirror" } } } }],
    ["a resolver without its part", { Chain: { Nodes: { n: { Type: "resolver" } } } }],
  ] as const
) {
  test(`readChain() refuses ${name}`, () => assert.throws(() => readChain(json), invalid(/chain/)));
}

test("readInstances() reads sidecars and native instances", () => {
  const instances = readInstances(fixture("health_connect"), "api");
  assert.deepEqual(
    instances.map(({ serviceId, service, health }) => [serviceId, service, health]),
    [
      ["api-1-sidecar-proxy", "api", "passing"],
      ["api-2-sidecar-proxy", "api", "warning"],
      ["api-3-sidecar-proxy", "api", "critical"],
      ["api-n", "api", "passing"],
    ],
  );
  const [first] = instances;
  assert.deepEqual(first?.weights, { passing: 10, warning: 3 });
  assert.deepEqual([first?.host, first?.port, first?.datacenter], ["127.0.1.3", 21101, "dc1"]);
});

test("readInstances() reads a terminating gateway as the requested service", () => {
  const gateway = {
    Node: { Node: "n1", Address: "127.0.0.2" },
    Service: { Kind: "terminating-gateway", ID: "tg-1", Service: "tg", Port: 8443, Proxy: {} },
  };
  const [only] = readInstances([gateway], "legacy");
  assert.deepEqual([only?.service, only?.gateway, only?.host, only?.port], [
    "legacy",
    true,
    "127.0.0.2",
    8443,
  ]);
});

test("readInstances() reads maintenance as critical", () => {
  const [only] = readInstances(fixture("health_connect_maintenance"), "api");
  assert.equal(only?.health, "critical");
});

function instance(service: object, node: object = {}, checks: unknown = []): unknown {
  return [{
    Node: { Node: "n", Address: "10.0.0.1", Datacenter: "dc1", ...node },
    Service: {
      ID: "x",
      Service: "x-proxy",
      Port: 1,
      Proxy: { DestinationServiceName: "x" },
      ...service,
    },
    Checks: checks,
  }];
}

for (
  const [name, service, node, want] of [
    ["the node's address", {}, {}, ["10.0.0.1", 1, "10.0.0.1", 1]],
    ["the service's address", { Address: "10.0.0.2" }, {}, ["10.0.0.2", 1, "10.0.0.2", 1]],
    [
      "the service's WAN address",
      {
        Address: "10.0.0.2",
        TaggedAddresses: { wan: { Address: "1.1.1.1", Port: 9 } },
      },
      { TaggedAddresses: { wan: "2.2.2.2" } },
      ["10.0.0.2", 1, "1.1.1.1", 9],
    ],
    ["the node's WAN address", {}, { TaggedAddresses: { wan: "2.2.2.2" } }, [
      "10.0.0.1",
      1,
      "2.2.2.2",
      1,
    ]],
    ["the service's address before the node's WAN one", { Address: "10.0.0.2" }, {
      TaggedAddresses: { wan: "2.2.2.2" },
    }, ["10.0.0.2", 1, "10.0.0.2", 1]],
    ["null tables", { TaggedAddresses: null, Weights: null }, { TaggedAddresses: null }, [
      "10.0.0.1",
      1,
      "10.0.0.1",
      1,
    ]],
  ] as const
) {
  test(`readInstances() dials ${name}`, () => {
    const [only] = readInstances(instance(service, node), "x");
    assert.deepEqual([only?.host, only?.port, only?.wanHost, only?.wanPort], want);
  });
}

for (
  const [statuses, want] of [
    [[], "passing"],
    [["passing", "warning"], "warning"],
    [["warning", "critical"], "critical"],
    [["passing", "strange"], "critical"],
  ] as const
) {
  test(`readInstances() reads [${statuses.join()}] as ${want}`, () => {
    const checks = statuses.map((status) => ({ Status: status }));
    assert.equal(readInstances(instance({}, {}, checks), "x")[0]?.health, want);
  });
}

const ALIAS = { CheckID: "service:x:2", Status: "critical" };
for (
  const [name, check, want] of [
    ["of its own", { CheckID: "_service_maintenance:x", Status: "critical" }, "set on service x"],
    [
      "of its node, with a reason",
      { CheckID: "_node_maintenance", Status: "critical", Notes: "kernel update" },
      'set on its node: "kernel update"',
    ],
    [
      "without a reason",
      {
        CheckID: "_node_maintenance",
        Status: "critical",
        Notes:
          "Maintenance mode is enabled for this node, but no reason was provided. This is a default message.",
      },
      "set on its node",
    ],
    [
      "of its service, by the alias check",
      { ...ALIAS, Output: 'Aliased check "Service Maintenance Mode" failing: ' },
      "set on its service",
    ],
    ["that is over", { CheckID: "_node_maintenance", Status: "passing" }, undefined],
    [
      "in the name of another check",
      { CheckID: "x_node_maintenance", Status: "critical" },
      undefined,
    ],
    ["but a check that fails", { ...ALIAS, Output: 'Aliased check "Ping" failing: x' }, undefined],
  ] as const
) {
  test(`readInstances() reads maintenance ${name}: ${want ?? "none"}`, () => {
    const [found] = readInstances(instance({}, {}, [check, { Status: "passing" }]), "x");
    assert.equal(found?.maintenance, want);
  });
}

test("readInstances() leaves out instances that cannot be dialled or have no identity", () => {
  assert.deepEqual(readInstances(instance({ Port: 0 }), "x"), []);
  assert.deepEqual(readInstances(instance({ Proxy: {} }), "x"), []);
  assert.deepEqual(readInstances(null, "x"), []);
});

test("readQueryResult() returns the datacenter of the answer", () => {
  const local = readQueryResult(fixture("prepared_query_execute"), "geo-db");
  const remote = readQueryResult(fixture("prepared_query_failover"), "geo-db");
  assert.deepEqual([local.service, local.datacenter, local.instances.length], ["db", "dc1", 1]);
  assert.deepEqual([remote.service, remote.datacenter], ["db", "dc2"]);
});

test("readMesh() reads both directions of TLS, and the rules for requests", () => {
  assert.deepEqual(readMesh(fixture("config_mesh")), {
    tls: {
      incoming: {
        minVersion: "TLSv1_2",
        maxVersion: "TLSv1_3",
        cipherSuites: ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"],
      },
      outgoing: { minVersion: "TLSv1_2", maxVersion: "", cipherSuites: [] },
    },
    http: {
      sanitizesForwardedClientCert: true,
      normalizesPaths: true,
      mergesSlashes: true,
      escapedSlashesAction: "UNESCAPE_AND_FORWARD",
      underscoresAction: "REJECT_REQUEST",
    },
  });
  assert.equal(readMesh(null), null);
  assert.deepEqual(readMesh({ Kind: "mesh" }), {});
  assert.deepEqual(readMesh({ HTTP: { Incoming: null } })?.http, {
    sanitizesForwardedClientCert: false,
    normalizesPaths: true,
    mergesSlashes: false,
    escapedSlashesAction: "",
    underscoresAction: "",
  });
  assert.throws(() => readMesh({ TLS: { Incoming: { CipherSuites: "x" } } }), invalid(/Cipher/));
});

test("readQueryResult() refuses a list", () => {
  assert.throws(() => readQueryResult([], "q"), invalid(/query "q"/));
});

for (
  const [name, want] of [
    ["authorize_default", "allow"],
    ["authorize_allow_l4", "deny"],
    ["authorize_deny_l4", "deny"],
    ["authorize_deny_l7", "deny"],
  ] as const
) {
  test(`defaultOf() reads ${name} as ${want}`, () => {
    const answer = { ...readAuthorize(fixture(name)), aclDefault: "allow" };
    assert.equal(defaultOf(answer).action, want);
  });
}

const BY_POLICY = "Default intention policy";
const BY_ACLS = "Default behavior configured by ACLs";

// Answers of a real Consul 1.22.7 with ACLs on or off; the last column is Envoy's default.
for (
  const [allowed, reason, aclDefault, want] of [
    [true, BY_POLICY, "allow", "allow"],
    [true, BY_POLICY, "deny", "allow"],
    [false, BY_POLICY, "allow", "deny"],
    [false, BY_POLICY, "deny", "deny"],
    [true, BY_ACLS, "allow", "allow"],
    // ACLs off: authorize allows although Envoy is configured to deny.
    [true, BY_ACLS, "deny", "deny"],
    [false, BY_ACLS, "deny", "deny"],
    [false, BY_ACLS, "allow", "deny"],
    [true, BY_ACLS, "", "deny"],
    [true, BY_ACLS, "audit", "deny"],
    [true, "Default of a later version", "allow", "deny"],
    [true, "", "allow", "deny"],
  ] as const
) {
  const title = `authorize ${allowed}, ${JSON.stringify(reason)}, acl.default_policy ${aclDefault}`;
  test(`defaultOf() of ${title}: ${want}`, () => {
    const { action, contradiction } = defaultOf({ allowed, reason, aclDefault });
    assert.equal(action, want);
    assert.equal(
      contradiction !== "",
      allowed && want === "deny",
      "a deny despite authorize is explained",
    );
  });
}

test("readAuthorize() refuses a verdict that is no boolean", () => {
  for (const json of [{}, { Authorized: "true" }, { Authorized: 1 }, null, "true"]) {
    assert.throws(() => readAuthorize(json), invalid(/authorization/));
  }
});

test("readSidecars() finds sidecars by service id in any case", () => {
  assert.deepEqual(readSidecars(fixture("agent_services"), "WEB-1"), ["web-1-sidecar-proxy"]);
  assert.deepEqual(readSidecars(fixture("agent_services"), "web"), []);
  assert.deepEqual(readSidecars({}, "web"), []);
});
