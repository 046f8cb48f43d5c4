import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import test from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { SdsClient, type SdsEvent } from "../../../test/kit/secrets/sds_client.ts";
import {
  inlineBundle,
  inlineCertificate,
  startSdsServer,
} from "../../../test/kit/secrets/sds_server.ts";
import { createLog, type LogRecord, systemClock } from "../../base/mod.ts";

const authority = createAuthority();
const leaf = authority.issueLeaf({ service: "web" });
const other = authority.issueLeaf({ service: "web" });

for (const api of ["sotw", "delta", "auto"] as const) {
  for (const tcp of [undefined, { port: 0 }]) {
    test(`SdsProvider follows a certificate and a bundle by ${api} over ${tcp ? "TCP" : "a unix socket"}`, async () => {
      await using server = await startSdsServer(tcp ? { tcp } : {});
      await using client = new SdsClient({ address: server.address, api });
      server.set(inlineCertificate("web", leaf), inlineBundle("ROOTCA", authority.rootPem));
      const web = client.watch("web");
      const roots = client.watch("ROOTCA", "validation");
      const { secret } = await web.next("secret");
      assert.equal(secret.type === "certificate" && secret.certPem, leaf.certPem);
      const bundle = (await roots.next("secret")).secret;
      assert.equal(bundle.type === "validation" && bundle.validation.kind, "ca");
      server.set(inlineCertificate("web", other));
      const next = (await web.next("secret", 1)).secret;
      assert.equal(next.type === "certificate" && next.certPem, other.certPem);
      assert.equal(server.streams, 1);
    });
  }
}

function certOf({ secret }: SdsEvent & { kind: "secret" }): string {
  return secret.type === "certificate" ? secret.certPem : "";
}

test("SdsProvider sends its node, without the build version that SPIRE reads as an old Envoy's", async () => {
  await using server = await startSdsServer();
  await using client = new SdsClient({
    address: server.address,
    api: "sotw",
    server: {
      metadata: { "x-token": "t1" },
      node: {
        id: "web-1",
        cluster: "web",
        metadata: { zone: "a", ports: [80, { tls: true }], none: null },
        locality: { region: "r", zone: "z", subZone: "s" },
      },
    },
  });
  client.watch("web");
  const { request } = await server.seen(() => true);
  assert.deepEqual(request, {
    node: {
      id: "web-1",
      cluster: "web",
      metadata: {
        fields: {
          zone: { string_value: "a" },
          ports: {
            list_value: {
              values: [
                { number_value: 80 },
                { struct_value: { fields: { tls: { bool_value: true } } } },
              ],
            },
          },
          none: { null_value: 0 },
        },
      },
      locality: { region: "r", zone: "z", sub_zone: "s" },
      user_agent_name: "postern",
      user_agent_version: "0.1.0",
    },
    resource_names: ["web"],
    type_url: "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
  });
});

test("SdsProvider requests the names of one turn in one request, and later ones on the same stream", async () => {
  await using server = await startSdsServer();
  await using client = new SdsClient({ address: server.address, api: "sotw" });
  server.set(...["a", "b", "c"].map((name) => inlineCertificate(name, leaf)));
  const early = ["a", "b"].map((name) => client.watch(name));
  await Promise.all(early.map((watch) => watch.next("secret")));
  assert.deepEqual(server.requests[0]?.request.resource_names, ["a", "b"]);
  await client.watch("c").next("secret");
  assert.equal(server.streams, 1);
});

test("SdsProvider gives the held secret to a later follower", async () => {
  await using server = await startSdsServer();
  await using client = new SdsClient({ address: server.address });
  server.set(inlineCertificate("web", leaf));
  await client.watch("web").next("secret");
  const seen = server.requests.length;
  const later = client.watch("web");
  assert.deepEqual(later.events, [], "not before watch() has returned");
  assert.equal(certOf(await later.next("secret")), leaf.certPem);
  assert.match((await client.watch("web", "validation").next("rejected")).reason, /is wanted/);
  assert.ok(server.requests.length <= seen + 1, "no other name is requested");
});

test("SdsProvider reports a change once, and none if only the bytes differ", async () => {
  await using server = await startSdsServer();
  await using client = new SdsClient({ address: server.address });
  server.set(inlineCertificate("web", leaf));
  const web = client.watch("web");
  await web.next("secret");
  server.set({ ...inlineCertificate("web", { ...leaf, certPem: `a note\n${leaf.certPem}` }) });
  server.set(inlineCertificate("web", other));
  await web.next("secret", 1);
  assert.equal(web.events.length, 2);
});

for (const api of ["sotw", "delta"] as const) {
  test(`SdsProvider refuses an unusable secret with the reason, and keeps the last one (${api})`, async () => {
    await using server = await startSdsServer();
    await using client = new SdsClient({ address: server.address, api });
    server.set(inlineCertificate("web", leaf), inlineCertificate("db", leaf));
    const web = client.watch("web");
    const db = client.watch("db");
    await Promise.all([web.next("secret"), db.next("secret")]);
    const bad = { certPem: other.certPem, keyPem: leaf.keyPem };
    server.set(inlineCertificate("web", bad), inlineCertificate("db", other));
    const { reason } = await web.next("rejected");
    assert.match(reason, /^Cannot use "web": /);
    assert.doesNotMatch(reason, /PRIVATE KEY/);
    assert.equal(certOf(await db.next("secret", 1)), other.certPem, "the valid secret is used");
    const nack = await server.seen(({ request }) => request.error_detail !== undefined);
    const detail = nack.request.error_detail as { code: number; message: string };
    assert.equal(detail.code, 13);
    assert.match(detail.message, /^web: /);
    assert.match(
      client.metrics(),
      /sds_update_rejected_total\{secret="web",source="sds sds_cluster"\} 1/,
    );
    server.set(inlineCertificate("web", other));
    assert.equal(certOf(await web.next("secret", 1)), other.certPem);
  });

  test(`SdsProvider keeps its secrets while the server is away, and reconnects (${api})`, async () => {
    const first = await startSdsServer();
    await using client = new SdsClient({ address: first.address, api });
    first.set(inlineCertificate("web", leaf));
    const web = client.watch("web");
    await web.next("secret");
    assert.match(client.metrics(), /sds_connected_state\{source="sds sds_cluster"\} 1/);
    await first.close();
    const { reason } = await web.next("unreachable");
    assert.match(
      reason,
      /^Cannot read from the SDS server "sds_cluster" at unix:\/\/\/.*: [A-Z_]+/,
    );
    assert.match(client.metrics(), /sds_connected_state\{source="sds sds_cluster"\} 0/);
    const path = first.address.kind === "unix" ? first.address.path : "";
    mkdirSync(dirname(path), { recursive: true });
    await using second = await startSdsServer({ path });
    // The server has another version than the one that we name.
    second.set();
    second.set(inlineCertificate("web", other));
    assert.equal(certOf(await web.next("secret", 1)), other.certPem);
    assert.deepEqual(web.events.filter(({ kind }) => kind === "removed"), []);
    const { request } = await second.seen(() => true);
    if (api === "sotw") assert.equal(request.version_info, "1");
    else assert.deepEqual(request.initial_resource_versions, { web: "1" });
    assert.equal(request.response_nonce, undefined, "empty");
  });
}

for (const api of ["sotw", "delta"] as const) {
  test(`SdsProvider reports the end of an outage without changes (${api})`, async () => {
    const first = await startSdsServer();
    await using client = new SdsClient({ address: first.address, api });
    const bad = { certPem: leaf.certPem, keyPem: other.keyPem };
    first.set(inlineCertificate("web", leaf), inlineCertificate("db", leaf));
    const [web, db] = [client.watch("web"), client.watch("db")];
    await Promise.all([web.next("secret"), db.next("secret")]);
    first.set(inlineCertificate("db", bad));
    const refused = await db.next("rejected");
    await first.close();
    await Promise.all([web.next("unreachable"), db.next("unreachable")]);
    const path = first.address.kind === "unix" ? first.address.path : "";
    mkdirSync(dirname(path), { recursive: true });
    await using second = await startSdsServer({ path });
    second.set();
    second.set();
    second.set(inlineCertificate("web", leaf), inlineCertificate("db", bad));
    await web.next("recovered");
    // The fault from before the outage persists.
    assert.equal(db.watch?.fault, refused.reason);
    assert.equal(web.events.filter(({ kind }) => kind === "secret").length, 1);
    assert.deepEqual(db.events.filter(({ kind }) => kind === "recovered"), []);
  });
}

test("SdsProvider counts the silence of a server without changes as an answer", async () => {
  const first = await startSdsServer();
  const limits = { connectMs: 200, firstMessageMs: 300 };
  await using client = new SdsClient({ address: first.address, api: "delta", limits });
  first.set(inlineCertificate("web", leaf));
  const web = client.watch("web");
  await web.next("secret");
  await first.close();
  await web.next("unreachable");
  const path = first.address.kind === "unix" ? first.address.path : "";
  mkdirSync(dirname(path), { recursive: true });
  await using second = await startSdsServer({ path });
  second.set(inlineCertificate("web", leaf));
  await web.next("recovered");
  assert.match(client.metrics(), /sds_connected_state\{source="sds sds_cluster"\} 1/);
  const { stream } = await second.seen(({ request }) =>
    request.initial_resource_versions !== undefined
  );
  // The next secret arrives on the same stream.
  second.set(inlineCertificate("web", other));
  assert.equal(certOf(await web.next("secret", 1)), other.certPem);
  assert.deepEqual(new Set(second.requests.map((seen) => seen.stream)), new Set([stream]));
});

test("SdsProvider reports a removal by delta, and the secret when it is back", async () => {
  await using server = await startSdsServer();
  await using client = new SdsClient({ address: server.address, api: "delta" });
  const web = client.watch("web");
  await web.next("removed");
  server.set(inlineCertificate("web", leaf));
  await web.next("secret");
  server.set("web");
  await web.next("removed", 2);
  // An equal secret is not reported as a rotation, but it is in use again.
  const isThere = new Promise<void>((resolve) =>
    web.watch?.observers.add({ onValue: resolve, onRemoved() {} })
  );
  server.set(inlineCertificate("web", leaf));
  await isThere;
  assert.equal(web.watch?.withdrawn, false);
});

for (const api of ["delta", "auto"] as const) {
  test(`SdsProvider falls back to state of the world if the server has no delta (${api})`, async () => {
    await using server = await startSdsServer({ delta: false });
    await using client = new SdsClient({ address: server.address, api });
    server.set(inlineCertificate("web", leaf));
    await client.watch("web").next("secret");
    assert.deepEqual(new Set(server.requests.map(({ method }) => method)), new Set(["sotw"]));
    assert.equal(server.streams, 2);
  });
}

test("SdsProvider opens one stream per name for a SPIRE agent, and retries unknown names", async () => {
  await using server = await startSdsServer({ spire: true, delta: false });
  const lines: LogRecord[] = [];
  const write = (line: LogRecord) => void lines.push(line);
  const log = createLog({ clock: systemClock, write, holder: { level: "info" } });
  await using client = new SdsClient({ address: server.address, deps: { log } });
  server.set(
    inlineCertificate("default", leaf),
    inlineBundle("ROOTCA", authority.rootPem),
    inlineBundle("ALL", authority.rootPem),
  );
  const names = ["default", "spiffe://td/web"].map((name) => client.watch(name));
  const bundles = ["ROOTCA", "ALL"].map((name) => client.watch(name, "validation"));
  const late = names[1];
  await Promise.all([names[0], ...bundles].map((watch) => watch?.next("secret")));
  assert.match(
    (await late?.next("unreachable"))?.reason ?? "",
    /^The SDS server "sds_cluster" at .* refused "spiffe:\/\/td\/web": INVALID_ARGUMENT: workload is not/,
  );
  assert.deepEqual(
    lines.map(({ message, fields }) => [message, fields?.names ?? fields?.name].join(": ")),
    [
      "sds server does not know delta, asked for the state of the world: ",
      "sds server refused these names together, asked for each alone: " +
      "default, spiffe://td/web, ROOTCA, ALL",
      "sds stream failed: spiffe://td/web",
    ],
  );
  server.set(inlineCertificate("spiffe://td/web", other));
  await late?.next("secret");
  server.set(inlineCertificate("default", other));
  assert.equal(certOf(await (names[0]?.next("secret", 1) ?? assert.fail())), other.certPem);
  assert.ok(
    server.requests.every(({ request: { resource_names: asked }, stream }) =>
      stream <= 2 || (Array.isArray(asked) && asked.length === 1)
    ),
  );
});

test("SdsProvider ends a subscription with its last follower", async () => {
  await using server = await startSdsServer();
  await using client = new SdsClient({ address: server.address, api: "delta" });
  server.set(inlineCertificate("web", leaf), inlineCertificate("db", leaf));
  const [web, again, db] = [client.watch("web"), client.watch("web"), client.watch("db")];
  await Promise.all([web.next("secret"), db.next("secret")]);
  web.watch?.close();
  again.watch?.close();
  const { request } = await server.seen(({ request }) => "resource_names_unsubscribe" in request);
  assert.deepEqual(request.resource_names_unsubscribe, ["web"]);
  assert.doesNotMatch(client.metrics(), /secret="web"/);
  db.watch?.close();
  while (server.open > 0) await new Promise((resolve) => setImmediate(resolve));
});

test("SdsProvider counts names beyond its limit together", async () => {
  await using server = await startSdsServer();
  await using client = new SdsClient({ address: server.address });
  const names = Array.from({ length: 1_100 }, (_, index) => `name-${index}`);
  const watches = names.map((name) => client.watch(name));
  await Promise.all(watches.map((watch) => watch.next("removed")));
  const lines = client.metrics().split("\n").filter((line) =>
    line.startsWith("postern_sds_update_attempt")
  );
  assert.equal(lines.length, 1_001);
  assert.ok(lines.some((line) => /\{secret="other",source="sds sds_cluster"\} 100$/.test(line)));
});
