/**
 * Certificates of a real server that signs two a second, with a root of another curve than the leaf's:
 * all callers that ask at once get theirs, and again after the roots were rotated; a caller without the
 * right gets an error that says so.
 *
 * @module
 */

import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import test from "node:test";
import { type ProxyError, silentLog, Stats, systemClock } from "../../src/base/mod.ts";
import type { Leaf } from "../../src/consul/mod.ts";
import { ServersSession } from "../../src/consul/servers/session.ts";
import { RootsFeed } from "../../src/consul/servers/trust/server_roots.ts";
import { watchSignedLeaf } from "../../src/consul/servers/trust/signed_leaf.ts";
import { runtimeEngine } from "../../src/net/mod.ts";
import { type Cluster, DATACENTER, startCluster } from "../kit/mesh/cluster.ts";
import { eventually } from "../kit/process/process.ts";
import { OPTIONS, ScriptedToken } from "../kit/consul/session_rig.ts";

const PROXIES = 6;
const HOUR_MS = 3_600_000;
/** Pauses, and the spread after a rotation, are up to ten seconds by chance: here a fifth of that. */
const random = () => 0.2 * Math.random();

class Proxy implements Disposable {
  readonly leaves: Leaf[] = [];
  readonly errors: ProxyError[] = [];
  readonly #end: () => void;

  constructor(cluster: Cluster, { secret, service }: { secret: string; service: string }) {
    const token = new ScriptedToken();
    token.value = secret;
    const deps = { clock: systemClock, random, log: silentLog, stats: new Stats() };
    const servers = new ServersSession({
      ...OPTIONS,
      places: { kind: "names", names: cluster.members.map(({ host }) => host) },
      grpcPort: cluster.grpcPort,
    }, { ...deps, engine: runtimeEngine(), token });
    const leaf = watchSignedLeaf({ service, datacenter: DATACENTER }, {
      sink: {
        onValue: (value) => void this.leaves.push(value),
        onError: (error) => void this.errors.push(error),
      },
      deps: { ...deps, servers, roots: new RootsFeed({ ...deps, servers }) },
    });
    this.#end = () => {
      leaf.stop();
      servers.close();
    };
  }

  [Symbol.dispose](): void {
    this.#end();
  }
}

test("a real server signs for all proxies that start together, and again when its root changes", async () => {
  await using cluster = await startCluster({
    acl: true,
    config: {
      connect: {
        enabled: true,
        ca_config: {
          csr_max_per_second: 2,
          leaf_cert_ttl: "1h",
          private_key_type: "ec",
          private_key_bits: 384,
        },
      },
    },
  });
  using stack = new DisposableStack();
  const secret = cluster.managementToken;
  const proxies = Array.from(
    { length: PROXIES },
    () => stack.use(new Proxy(cluster, { secret, service: "web" })),
  );
  const other = await cluster.tokenWithRules('service "web" { policy = "read" }');
  const reader = stack.use(new Proxy(cluster, { secret: other, service: "web" }));

  const all = (count: number) => () => proxies.every(({ leaves }) => leaves.length >= count);
  await eventually("all have a leaf", all(1), { timeoutMs: 30_000 });
  for (const { leaves: [leaf] } of proxies) {
    assert.ok(leaf);
    assert.match(leaf.uri, /^spiffe:\/\/[0-9a-f-]{36}\.consul\/ns\/default\/dc\/dc1\/svc\/web$/);
    assert.equal(leaf.notAfterMs - leaf.notBeforeMs, HOUR_MS);
    const certificate = new X509Certificate(leaf.certPem);
    assert.equal(certificate.publicKey.asymmetricKeyDetails?.namedCurve, "prime256v1");
  }
  const refused = proxies.flatMap(({ errors }) => errors);
  assert.ok(refused.every(({ code }) => code === "agent_overloaded"));
  assert.ok(refused.length > 0, "two a second are not enough for all at once");

  await eventually("the right is named", () => reader.errors[0]);
  assert.equal(reader.errors[0]?.code, "agent_forbidden");
  assert.match(reader.errors[0]?.message ?? "", /"web" takes service:write/);
  assert.deepEqual(reader.leaves, []);

  await cluster.rotateCa();
  await eventually("all have the next", all(2), { timeoutMs: 30_000 });
  for (const { leaves: [before, after] } of proxies) {
    assert.ok(before && after);
    assert.equal(after.uri, before.uri);
    assert.notEqual(after.keyPem, before.keyPem);
    // The certificate that links it to the old root, the only one that others know yet.
    assert.equal(after.certPem.split("BEGIN CERTIFICATE").length - 1, 2);
  }
});
