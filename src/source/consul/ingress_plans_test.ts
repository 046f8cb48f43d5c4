import assert from "node:assert/strict";
import { test } from "node:test";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import type { Registration, UpstreamDeclaration } from "../../consul/mod.ts";
import { NO_PLANS } from "../parts/credential_plans.ts";
import { planRegistration } from "./plan_registration.ts";

const ID = "ingress:8443/db";
const KEY = `${ID} listener`;
const cluster = (name: string, address = "127.0.0.1") => ({
  name,
  load_assignment: {
    endpoints: [{
      lb_endpoints: [{ endpoint: { address: { socket_address: { address, port_value: 1 } } } }],
    }],
  },
});
const sds = (ClusterName: string) => ({ SDS: { ClusterName, CertResource: "a" } });

interface Entry {
  readonly gateway?: object;
  readonly listener?: object;
  readonly enabled?: boolean;
}

const ingressTls = ({ gateway, listener, enabled = false }: Entry) => ({
  enabled,
  index: 3,
  path: ["entry"],
  entry: { TLS: gateway, Listeners: [{ Port: 8443, TLS: listener, Services: [] }] },
});

function gateway(
  entry: Entry,
  { clusters = [cluster("sds")], ...rest }: Partial<Registration> & {
    readonly clusters?: readonly unknown[];
  } = {},
): Registration {
  const upstream: UpstreamDeclaration = facts.declaration("db", {
    id: ID,
    ingressTls: ingressTls(entry),
  });
  return facts.registration({
    service: "igw",
    upstreams: [upstream],
    ingress: { clusters, meshGatewayMode: "", edges: [], refused: [] },
    ...rest,
  });
}

const plan = (registration: Registration, previous = NO_PLANS) =>
  planRegistration(registration, previous, {});

test("planRegistration() takes an ingress listener's certificate from a static cluster", () => {
  const { plans, inbound, listeners, upstreams, refused, warnings } = plan(
    gateway({ gateway: sds("sds"), listener: { SDS: { CertResource: "b" } } }),
  );
  assert.deepEqual([refused, warnings, inbound, upstreams.size], [[], [], null, 0]);
  assert.equal(listeners.get(ID), KEY);
  const [certificate, ...more] = plans[KEY]?.certificates ?? [];
  assert.deepEqual(more, []);
  assert.equal(certificate?.name, "b");
  const source = certificate?.source;
  assert.ok(source?.kind === "sds");
  assert.equal(source.server.name, "sds");
  assert.deepEqual(source.server.node, { id: "web-1-sidecar-proxy", cluster: "igw", metadata: {} });
  assert.equal(plans[KEY]?.validation, null);
});

test("planRegistration() takes postern_tls.sds_clusters before a static cluster", () => {
  const tls = { sds_clusters: { sds: { address: "unix:///run/sds.sock" } } };
  const { plans, refused } = plan(gateway({ gateway: sds("sds") }, { tls }));
  assert.deepEqual(refused, []);
  const source = plans[KEY]?.certificates[0]?.source;
  assert.ok(source?.kind === "sds");
  assert.deepEqual(source.server.addresses, [{ kind: "unix", path: "/run/sds.sock" }]);
});

test("planRegistration() leaves an ingress listener without TLS plain", () => {
  const clusters = [1, {}, { name: 2 }, { name: "zipkin" }];
  const { listeners, refused, plans, warnings } = plan(gateway({}, { clusters }));
  assert.deepEqual([listeners.size, refused, plans], [0, [], {}]);
  assert.match(warnings.join(), /^The cluster "zipkin" of envoy_extra_[a-z_]+ is ignored/);
});

for (
  const [name, entry, more, reason] of [
    [
      "a cluster of nobody",
      { gateway: sds("x") },
      {},
      /^entry\.Listeners\[3\]\.TLS\.SDS\.ClusterName names "x", which is no SDS server$/,
    ],
    [
      "a cluster that would be asked in clear",
      { listener: sds("far") },
      {
        clusters: [cluster("far", "192.0.2.1")],
      },
      /names "far", which cannot be used: envoy_extra_static_clusters_json\.far\.transport_socket is missing: secrets would/,
    ],
    [
      "Consul's own certificate",
      { enabled: true },
      {},
      /^entry\.Listeners\[3\]\.TLS cannot be served: .* use TLS\.SDS, or a Postern configuration file/,
    ],
    ["no resource", { gateway: { SDS: { ClusterName: "sds" } } }, {}, /CertResource is missing/],
    ["an odd entry", { gateway: { SDS: 1 } }, {}, /^entry\.TLS\.SDS must be an object, not 1$/],
    ["SDS servers that cannot be read", { gateway: sds("own") }, {
      tls: { sds_clusters: { own: {} } },
    }, /postern_tls\.sds_clusters\.own.*; entry\.Listeners\[3\].*names "own"/],
  ] as const
) {
  test(`planRegistration() refuses an ingress listener with ${name}`, () => {
    const { listeners, refused, plans } = plan(gateway(entry, more));
    assert.equal(listeners.get(ID), "refused");
    assert.deepEqual(plans, {});
    assert.equal(refused.length, 1);
    assert.equal(refused[0]?.what, `credentials of ${KEY}`);
    assert.match(refused[0]?.reason ?? "", reason);
  });
}

test("planRegistration() keeps an ingress listener's last good certificate", () => {
  const good = plan(gateway({ gateway: sds("sds") }));
  const bad = plan(gateway({ gateway: sds("x") }), good);
  assert.equal(bad.listeners.get(ID), KEY);
  assert.equal(bad.plans[KEY], good.plans[KEY]);
  assert.equal(bad.refused.length, 1);
});

test("planRegistration() refuses a listener's credentials in a gateway's registration", () => {
  const tls = { certificate: { source: "consul" }, upstreams: {} };
  const { inbound, refused } = plan(gateway({}, { tls }));
  assert.equal(inbound, null);
  assert.match(refused[0]?.reason ?? "", /^certificate of postern_tls has no effect/);
});
