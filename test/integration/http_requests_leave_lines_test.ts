import assert from "node:assert/strict";
import { test } from "node:test";
import type { AccessLogPart, PluginUse } from "../../src/snapshot/mod.ts";
import { eventually } from "../kit/process/process.ts";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../kit/wire/http_raw.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { httpRules, policyOf, withInbound } from "../kit/engine/snapshots.ts";

const LOG: AccessLogPart = {
  version: 1,
  to: { kind: "stdout" },
  format: { kind: "default" },
  listeners: true,
};

/** A sidecar pair that speaks HTTP/1.1, and the lines of both. */
async function startLoggedPair() {
  const origin = await startRawOrigin(({ head, body }) =>
    head.startsWith("GET /stays ") ? undefined : answerOf(`you said ${body}`)
  );
  const taken = { web: [] as string[], db: [] as string[] };
  const pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: httpRules("http") },
    upstream: { http: httpRules("http") },
    web: { takeLine: (line) => void taken.web.push(line) },
    db: { takeLine: (line) => void taken.db.push(line) },
  });
  await pair.db.set({ ...pair.dbSnapshot, accessLog: LOG });
  await pair.web.set({ ...pair.webSnapshot, accessLog: LOG });
  return {
    pair,
    origin,
    taken,
    open: () => RawClient.open({ host: "127.0.0.1", port: pair.port }),
    last: (side: "web" | "db") => JSON.parse(taken[side].at(-1) ?? "null"),
    async [Symbol.asyncDispose]() {
      await pair[Symbol.asyncDispose]();
      await origin[Symbol.asyncDispose]();
    },
  };
}

test("a plugin writes lines of its own, also for requests that later plugins refuse", async () => {
  await using rig = await startLoggedPair();
  const use = (plugin: string, config: unknown): PluginUse => ({
    plugin,
    config,
    onFailure: "refuse",
    at: "inbound.plugins",
  });
  const text = "%REQ(:METHOD)% %RESPONSE_CODE% %BYTES_RECEIVED% %UPSTREAM_HOST% %PROTOCOL%";
  const abort = { status: 503, percent: 100 };
  const set = (...plugins: readonly PluginUse[]) =>
    rig.pair.db.set(withInbound({ ...rig.pair.dbSnapshot, accessLog: LOG }, { plugins }));
  await set(use("access_log", { format: { text } }));
  await using client = await rig.open();
  client.send("POST / HTTP/1.1\r\nHost: db\r\nContent-Length: 3\r\n\r\nabc");
  assert.equal(statusOf(await client.response()), 200);
  const own = () => rig.taken.db.filter((line) => !line.startsWith("{"));
  assert.deepEqual(own(), [`POST 200 3 127.0.0.1:${rig.origin.port} HTTP/1.1\n`]);
  await set(use("access_log", { format: { text } }), use("fault", { abort }));
  client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  assert.equal(statusOf(await client.response()), 503);
  assert.equal(own().at(-1), "GET 503 0 - HTTP/1.1\n");
  assert.deepEqual([rig.taken.db.length, own().length], [4, 2]);
});

const metric = (rig: Awaited<ReturnType<typeof startLoggedPair>>, name: string) =>
  rig.pair.db.path.stats.samples().filter((sample) => sample.name === name)
    .map(({ labels, value }) => [labels["status"] ?? labels["flag"], value]);

test("a request leaves a line on each side that names its upstream", async () => {
  await using rig = await startLoggedPair();
  await using client = await rig.open();
  client.send(
    'POST /a/../b?c HTTP/1.1\r\nHost: db\r\nUser-Agent: me "x"\r\nContent-Length: 3\r\n\r\nabc',
  );
  assert.equal(statusOf(await client.response()), 200);
  assert.deepEqual([rig.taken.web.length, rig.taken.db.length], [1, 1]);
  const web = rig.last("web");
  const db = rig.last("db");
  for (const line of [web, db]) {
    assert.equal(line.method, "POST");
    assert.equal(line.protocol, "HTTP/1.1");
    assert.equal(line.authority, "db");
    assert.equal(line.user_agent, 'me "x"');
    assert.equal(line.response_code, 200);
    assert.equal(line.response_flags, "-");
    assert.equal(line.response_code_details, "via_upstream");
    assert.deepEqual([line.bytes_received, line.bytes_sent], [3, 12]);
    assert.match(line.upstream_service_time, /^\d+$/);
    assert.match(line.request_id, /^[0-9a-f-]{36}$/);
    assert.match(line.upstream_local_address, /^127\.0\.0\.1:\d+$/);
    assert.match(line.downstream_local_address, /^127\.0\.0\.1:\d+$/);
  }
  assert.equal(web.request_id, db.request_id);
  assert.equal(web.upstream_cluster, "db.default.dc1.internal.test.consul");
  assert.equal(db.upstream_cluster, "local_app");
  // Judged and sent on is the other form.
  assert.deepEqual([web.path, db.path], ["/a/../b?c", "/b?c"]);
  assert.deepEqual(metric(rig, "http_responses_total"), [["200", 1]]);
  assert.equal(db.downstream_remote_address.split(":")[0], "127.0.0.1");
  assert.deepEqual([web.requested_server_name, db.requested_server_name], [
    null,
    "db.default.dc1.internal.test.consul",
  ]);
});

test("a request whose caller left, or whose endpoint broke, has all addresses in its line", async () => {
  await using rig = await startLoggedPair();
  await using client = await rig.open();
  client.send("GET /stays HTTP/1.1\r\nHost: db\r\n\r\n");
  await eventually("it is under way", () => rig.origin.requests.length === 1);
  client.socket.resetAndDestroy();
  await eventually("it has left", () => rig.taken.db.length === 1);
  for (const line of [rig.last("web"), rig.last("db")]) {
    assert.equal(line.response_flags, "DC");
    assert.match(line.upstream_local_address, /^127\.0\.0\.1:\d+$/);
    assert.match(line.downstream_local_address, /^127\.0\.0\.1:\d+$/);
  }
});

test("a request that is denied, and one that cannot be read, leave lines, too", async () => {
  await using rig = await startLoggedPair();
  await rig.pair.db.set({ ...rig.pair.dbSnapshot, accessLog: LOG, policy: policyOf([]) });
  await using client = await rig.open();
  client.send("GET /secret HTTP/1.1\r\nHost: db\r\n\r\n");
  assert.equal(statusOf(await client.response()), 403);
  const db = rig.last("db");
  assert.equal(db.response_code, 403);
  assert.equal(db.response_code_details, "rbac_access_denied_matched_policy[none]");
  assert.equal(db.upstream_host, null);
  assert.equal(db.bytes_sent, "RBAC: access denied".length);
  // To the other side it is an ordinary response.
  assert.equal(rig.last("web").response_code_details, "via_upstream");

  await using odd = await rig.open();
  odd.send("GET / HTTP/1.1\r\nHost: db\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n");
  assert.equal(statusOf(await odd.response()), 400);
  const line = rig.last("web");
  assert.deepEqual([line.method, line.response_code, line.response_flags], [null, 400, "DPE"]);
});

test("a request without a reachable endpoint leaves a line with Envoy's flag, and is counted", async () => {
  await using rig = await startLoggedPair();
  const targets = Object.fromEntries(
    Object.entries(rig.pair.webSnapshot.targets).map(([key, part]) => [
      key,
      { ...part, version: -1, endpoints: [], lack: "nobody is healthy" },
    ]),
  );
  await rig.pair.web.set({ ...rig.pair.webSnapshot, accessLog: LOG, targets });
  await using client = await rig.open();
  client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  assert.equal(statusOf(await client.response()), 503);
  const line = rig.last("web");
  assert.equal(line.response_flags, "UH");
  assert.equal(line.response_code_details, "no_healthy_upstream");
  assert.equal(line.upstream_cluster, "db.default.dc1.internal.test.consul");
  const samples = rig.pair.web.path.stats.samples();
  const count = (name: string, key: string, label: string) =>
    samples.find((sample) => sample.name === name && sample.labels[key] === label)?.value;
  assert.equal(count("http_response_flags_total", "flag", "UH"), 1);
  assert.equal(count("http_upstream_responses_total", "status", "503"), 1);
  assert.equal(count("http_requests_failed_total", "outcome", "no_endpoint"), 1);
});

test("a request that no connection came up for names the endpoint that was tried last", async () => {
  await using rig = await startLoggedPair();
  await rig.origin[Symbol.asyncDispose]();
  const db = `127.0.0.1:${rig.pair.db.port()}`;
  const ask = async () => {
    await using client = await rig.open();
    client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
    return statusOf(await client.response());
  };
  assert.equal(await ask(), 503);
  const local = rig.last("db");
  assert.equal(local.upstream_host, `127.0.0.1:${rig.origin.port}`);
  assert.equal(local.response_flags, "UF");
  assert.match(local.upstream_transport_failure_reason, /ECONNREFUSED/);
  assert.equal(local.upstream_local_address, null);

  rig.pair.db.path.close();
  assert.equal(await ask(), 503);
  const remote = rig.last("web");
  assert.equal(remote.upstream_host, db);
  assert.equal(remote.response_flags, "UF");
  assert.match(remote.upstream_transport_failure_reason, /ECONNREFUSED/);
});

test("connections that are kept for requests are counted while they are open", async () => {
  await using rig = await startLoggedPair();
  await using client = await rig.open();
  for (let i = 0; i < 3; i++) {
    client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
    await client.response();
  }
  const value = (name: string) =>
    rig.pair.web.path.stats.samples().find((sample) => sample.name === name)?.value;
  assert.equal(value("http_requests_total"), 3);
  assert.equal(value("http_requests_active"), 0);
  assert.equal(value("http_upstream_connections_total"), 1);
  assert.equal(value("http_upstream_connections_active"), 1);
  assert.equal(value("http_pending_total"), 1);
  assert.equal(value("http_pending_active"), 0);
});
