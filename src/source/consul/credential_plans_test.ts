import assert from "node:assert/strict";
import { resolve } from "node:path";
import { test } from "node:test";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import type { Registration } from "../../consul/mod.ts";
import type { CredentialsPlan } from "../../secrets/mod.ts";
import { NO_PLANS } from "../parts/credential_plans.ts";
import { planRegistration } from "./plan_registration.ts";

const FILE = { source: "file", cert: "/tls/web.pem", key: "/tls/web.key", ca: "/tls/roots.pem" };
const SDS = { sds_cluster: { address: "unix:///run/sds.sock" } };
const BAD = { source: "filee" };
const DB = "service:default/default/db";

const plan = (registered: Partial<Registration>, previous = NO_PLANS) =>
  planRegistration(facts.registration({ upstreams: [], ...registered }), previous, {});
const withUpstream = (config: object, registered: Partial<Registration> = {}) =>
  plan({ upstreams: [facts.declaration("db", config)], ...registered });

/** `file certificate`, `consul roots`: where each secret of a plan comes from. */
function sourcesOf(of: CredentialsPlan | undefined): readonly string[] {
  assert.ok(of, "there is a plan");
  return [...of.certificates, ...of.validation ? [of.validation.secret] : []]
    .map(({ source, type }) => `${source.kind} ${type}`);
}

for (
  const [name, tls, want] of [
    ["files for everything", FILE, ["spec certificate", "spec validation"]],
    ["files for the certificate, the agent for the rest", {
      certificate: { source: "file", cert: "/a.pem", key: "/a.key" },
    }, ["spec certificate", "consul validation"]],
    ["the agent for the certificate, files for the rest", {
      validation: { source: "file", ca: "/roots.pem" },
    }, ["consul certificate", "spec validation"]],
    ["SDS for the bundle", {
      certificate: { source: "consul" },
      validation: { source: "sds", cluster: "sds_cluster", name: "roots" },
      sds_clusters: SDS,
    }, ["consul certificate", "sds validation"]],
    ["nobody to ask", {
      certificate: { source: "file", cert: "/a.pem", key: "/a.key" },
      validation: { source: "none" },
    }, ["spec certificate"]],
    ["what HCL makes of a list of one", {
      certificates: { source: "file", cert: "/a.pem", key: "/a.key" },
      validation: [{ source: "file", ca: "/roots.pem", sanMatchers: { type: "dns", exact: "a" } }],
    }, ["spec certificate", "spec validation"]],
    ["Envoy's words", {
      common_tls_context: {
        tls_certificates: {
          certificate_chain: { filename: "/a.pem" },
          private_key: { filename: "/a.key" },
        },
      },
    }, ["spec certificate"]],
  ] as const
) {
  test(`planRegistration() takes ${name} for the public listener`, () => {
    const { plans, inbound, refused } = plan({ tls });
    assert.deepEqual(refused, []);
    assert.equal(inbound, "inbound");
    assert.deepEqual(sourcesOf(plans.inbound), want);
  });
}

for (
  const [name, tls] of [
    ["nothing", undefined],
    ["an empty section", {}],
    ["SDS servers alone", { sds_clusters: SDS }],
    ["credentials of upstreams alone", { upstreams: FILE }],
  ] as const
) {
  test(`planRegistration() leaves the listener to the agent where there is ${name}`, () => {
    const { inbound, refused } = plan(tls === undefined ? {} : { tls });
    assert.equal(inbound, null);
    assert.deepEqual(refused, []);
  });
}

for (
  const [name, tls, want] of [
    ["a text", "file", /^postern_tls must be an object$/],
    ["a list", [FILE, FILE], /^postern_tls must be an object$/],
    ["false", false, /^postern_tls must be an object$/],
    ["an unknown source", BAD, /^postern_tls\.source must be consul, file, workload$/],
    ["a key without its certificate", { source: "file", key: "/a.key" }, /^postern_tls\.cert /],
    ["an unknown field", { ...FILE, cert_file: "/a" }, /^postern_tls\.cert_file is not known here/],
    ["an SDS server of nobody", {
      certificate: { source: "sds", cluster: "x", name: "web" },
    }, /^postern_tls\.certificate\.cluster names "x", which is no SDS server/],
    ["a bad SDS server", {
      certificate: { source: "sds", cluster: "a", name: "web" },
      sds_clusters: { a: { address: "nowhere" } },
    }, /^postern_tls\.sds_clusters\.a\.address must be/],
    ["a Workload API without a socket", { source: "workload" }, /^postern_tls\.socket is missing/],
    ["rules on top of the mesh's own roots", {
      validation: { source: "consul", sanMatchers: [{ type: "dns", exact: "a" }] },
    }, /^postern_tls\.validation adds rules to the mesh's own roots/],
  ] as const
) {
  test(`planRegistration() refuses ${name} by its path and opens with nothing instead`, () => {
    const { plans, inbound, refused } = plan({ tls });
    assert.equal(inbound, "refused");
    assert.deepEqual(plans, {});
    assert.equal(refused.length, 1);
    assert.equal(refused[0]?.what, "credentials of inbound");
    assert.match(refused[0]?.reason ?? "", want);
  });
}

test("planRegistration() names bad SDS servers that are not used", () => {
  const { inbound, refused } = plan({ tls: { sds_clusters: { a: {} } } });
  assert.equal(inbound, null);
  assert.deepEqual(refused.map(({ what }) => what), ["SDS servers"]);
  assert.match(refused[0]?.reason ?? "", /^postern_tls\.sds_clusters\.a\.address/);
});

test("planRegistration() keeps the old plan of what became bad, and of nothing else", () => {
  const db = (tls: unknown) => [facts.declaration("db", { tls })];
  const first = plan({ tls: FILE, upstreams: db(FILE) });
  const next = plan({ tls: BAD, upstreams: db(BAD) }, first);
  assert.equal(next.inbound, "inbound");
  assert.equal(next.plans.inbound, first.plans.inbound);
  assert.equal(next.plans[DB], first.plans[DB]);
  assert.deepEqual(next.refused.map(({ what }) => what), [
    "credentials of inbound",
    `credentials of ${DB}`,
  ]);
  const gone = plan({ upstreams: [facts.declaration("db")] }, next);
  assert.deepEqual([gone.plans, gone.inbound, gone.refused], [{}, null, []]);
  const badAgain = plan({ tls: BAD, upstreams: db(BAD) }, gone);
  assert.deepEqual([badAgain.plans, badAgain.inbound], [{}, "refused"]);
  assert.equal(badAgain.upstreams.get(DB), "refused");
});

test("planRegistration() reads a registration once", () => {
  const registration = facts.registration({ tls: FILE });
  const first = planRegistration(registration, NO_PLANS, {});
  assert.equal(planRegistration(registration, first, {}), first);
});

test("planRegistration() gives an upstream its own, else those for all upstreams", () => {
  const other = { ...FILE, ca: "/tls/other.pem" };
  const upstreams = [facts.declaration("db"), facts.declaration("api", { tls: other })];
  const { plans, inbound, upstreams: keys } = plan({ tls: { upstreams: FILE }, upstreams });
  assert.equal(inbound, null);
  assert.deepEqual([...keys], [[DB, DB], [DB.replace("db", "api"), DB.replace("db", "api")]]);
  assert.equal(plans[DB]?.validation?.secret.name, "/tls/roots.pem");
  assert.equal(plans[DB.replace("db", "api")]?.validation?.secret.name, "/tls/other.pem");
});

for (
  const [name, config, registered, want] of [
    ["an upstream", { tls: BAD }, {}, /^\["upstream db"\]\.postern_tls\.source must be/],
    [
      "an upstream that asks nobody",
      {
        tls: { validation: { source: "none" } },
      },
      {},
      /^\["upstream db"\]\.postern_tls\.validation cannot be none for an upstream/,
    ],
    ["what is for all upstreams", {}, {
      tls: { upstreams: BAD },
    }, /^postern_tls\.upstreams\.source must be/],
    ["an upstream by servers that are bad", { tls: FILE }, {
      tls: { sds_clusters: { a: {} } },
    }, /^postern_tls\.sds_clusters\.a/],
  ] as const
) {
  test(`planRegistration() refuses ${name} by its path`, () => {
    const { plans, upstreams, refused } = withUpstream(config, registered);
    assert.deepEqual(plans, {});
    assert.equal(upstreams.get(DB), "refused");
    assert.match(refused[0]?.reason ?? "", want);
  });
}

test("planRegistration() takes TLS for an upstream's callers, apart from how it is dialled", () => {
  const { plans, upstreams, listeners } = withUpstream({ listenerTls: FILE });
  assert.equal(upstreams.size, 0);
  assert.equal(listeners.get(DB), `${DB} listener`);
  assert.deepEqual(sourcesOf(plans[`${DB} listener`]), ["spec certificate", "spec validation"]);
  const bad = withUpstream({ listenerTls: BAD });
  assert.equal(bad.listeners.get(DB), "refused");
  assert.match(bad.refused[0]?.reason ?? "", /^\["upstream db"\]\.postern_listener_tls\.source/);
});

test("planRegistration() means files from where the program runs", () => {
  const { plans } = plan({ tls: { ...FILE, cert: "web.pem" } });
  const source = plans.inbound?.certificates[0]?.source;
  assert.ok(source?.kind === "spec" && source.spec.type === "certificate");
  assert.deepEqual(source.spec.chain, { kind: "file", path: resolve("web.pem") });
  assert.deepEqual(source.spec.key, { kind: "file", path: "/tls/web.key" });
});

test("planRegistration() finds the Workload API in the environment", () => {
  const registration = facts.registration({ upstreams: [], tls: { source: "workload" } });
  const env = { SPIFFE_ENDPOINT_SOCKET: "unix:///run/spire/agent.sock" };
  const { plans, refused } = planRegistration(registration, NO_PLANS, env);
  assert.deepEqual(refused, []);
  assert.deepEqual(sourcesOf(plans.inbound), ["workload certificate", "workload validation"]);
});

test("planRegistration() sends the proxy's node to an SDS server", () => {
  const { plans } = plan({
    tls: {
      certificate: { source: "sds", cluster: "sds_cluster", name: "web" },
      sds_clusters: SDS,
    },
  });
  const source = plans.inbound?.certificates[0]?.source;
  assert.ok(source?.kind === "sds");
  assert.deepEqual(source.server.node, {
    id: "web-1-sidecar-proxy",
    cluster: "web",
    metadata: {},
  });
});
