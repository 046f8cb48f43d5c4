import { strict as assert } from "node:assert";
import { test } from "node:test";
import { fakeAdminView, TOKEN } from "../../test/kit/admin_view.ts";
import { createAdmin } from "./admin.ts";
import { PATHS } from "./home.ts";

const LOCAL = { host: "127.0.0.1:19000" };
const GET_PATHS = ["/", ...PATHS.filter(([, , method]) => !method).map(([path]) => path)];

function admin() {
  const view = fakeAdminView();
  const app = createAdmin(view, { boundHost: "127.0.0.1" });
  const ask = (path: string, init: RequestInit = {}) =>
    app.request(path, { ...init, headers: { ...LOCAL, ...init.headers } });
  const json = async (path: string) => JSON.parse(await (await ask(path)).text());
  return { view, app, ask, json };
}

for (const path of GET_PATHS) {
  test(`admin ${path} answers, and shows neither key nor token`, async () => {
    const { view, ask } = admin();
    for (const query of ["", "?format=json", "?format=prometheus", "?limit=1"]) {
      const reply = await ask(`${path}${query}`);
      assert.equal(reply.status, 200, path);
      const text = await reply.text();
      assert.ok(text.length > 0);
      assert.ok(!text.includes("PRIVATE KEY"), path);
      assert.ok(!text.includes(TOKEN), path);
      assert.ok(!text.includes(view.keyPem.split("\n")[1] ?? "-"), path);
      assert.equal(reply.headers.get("access-control-allow-origin"), null);
      assert.equal(reply.headers.get("cache-control"), "no-store");
    }
  });

  test(`admin ${path} refuses another method with what it allows`, async () => {
    const { ask } = admin();
    for (const method of ["DELETE", "PUT", "OPTIONS", "PATCH"]) {
      const reply = await ask(path, { method });
      assert.equal(reply.status, 405);
      assert.match(reply.headers.get("allow") ?? "", /GET, HEAD/);
    }
  });
}

test("admin /config_dump shows certificates, and no key even where one slipped in", async () => {
  const { view, json } = admin();
  const dump = await json("/config_dump");
  assert.match(dump.snapshot.credentials.certPem, /BEGIN CERTIFICATE/);
  assert.equal(dump.snapshot.credentials.keyPem, undefined);
  assert.equal(dump.options.agentFlags.token, "(not shown)");
  assert.equal(dump.options.agentFlags.httpAddr, "127.0.0.1:8500");
  assert.equal(dump.options.note, "is (not shown)");
  const snapshot = view.snapshot();
  assert.ok(snapshot);
  const slipped = createAdmin(
    { ...view, snapshot: () => ({ ...snapshot, service: view.keyPem }) },
    { boundHost: "127.0.0.1" },
  );
  for (const path of GET_PATHS) {
    const text = await (await slipped.request(path, { headers: LOCAL })).text();
    assert.ok(!text.includes("PRIVATE KEY"), path);
  }
});

for (
  const [name, change, status, want] of [
    ["ready", {}, 200, "LIVE\n"],
    ["not ready", { ready: false }, 503, "INITIALIZING\nwaiting for the leaf certificate\n"],
    [
      "without a first snapshot",
      { ready: false, started: false },
      503,
      "PRE_INITIALIZING\nwaiting for the leaf certificate\n",
    ],
    [
      "ready, and what is wrong",
      { warnings: ["listener x is not bound: in use"] },
      200,
      "LIVE\n" +
      "warning: listener x is not bound: in use\n",
    ],
    ["draining", { drained: true }, 503, "DRAINING\ndraining: no new connections\n"],
  ] as const
) {
  test(`admin /ready says ${name}`, async () => {
    const { view, ask } = admin();
    Object.assign(view, change);
    const reply = await ask("/ready");
    assert.equal(reply.status, status);
    assert.equal(await reply.text(), want);
    assert.equal((await ask("/live")).status, 200);
    assert.equal((await ask("/ready", { method: "HEAD" })).status, status);
  });
}

test("admin /stats sums the workers and filters", async () => {
  const { ask, json } = admin();
  assert.equal(
    await (await ask("/stats")).text(),
    'connections_total{direction="inbound"}: 6\n' +
      'listener_usable{direction="inbound",listener="inbound"}: 0\n' +
      'listener_usable{direction="outbound",listener="service:default/default/db"}: 1\n' +
      "snapshot_version: 7\n",
  );
  assert.equal(await (await ask("/stats?filter=version")).text(), "snapshot_version: 7\n");
  assert.equal((await json("/stats?format=json&filter=conn")).stats[0].value, 6);
  assert.equal((await ask("/stats?format=xml")).status, 400);
  const prometheus = await ask("/stats/prometheus");
  assert.match(prometheus.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  assert.match(await prometheus.text(), /^postern_connections_total\{direction="inbound"\} 6$/m);
});

test("admin /certs says how long each certificate is valid", async () => {
  const { view, json } = admin();
  const certs = await json("/certs");
  // Three days, of which the first minute lies before its issue.
  assert.equal(certs.leaf.daysLeft, 2.99);
  assert.deepEqual(certs.leaf.uris, [certs.uri]);
  assert.match(certs.uri, /^spiffe:\/\/.*\/svc\/web$/);
  assert.equal(certs.roots.length, 1);
  assert.ok(certs.roots[0].daysLeft > 3_000);
  assert.deepEqual(certs.errors, []);
  await view.clock.advance(4 * 86_400_000);
  assert.equal((await json("/certs")).leaf.daysLeft, -1.01);
});

test("admin /clusters and /listeners join the workers", async () => {
  const { ask, json } = admin();
  const text = await (await ask("/clusters")).text();
  assert.match(text, /^db\.default\.dc1::10\.0\.0\.2:21001::cx_active::4$/m);
  assert.match(text, /::health_flags::healthy$/m);
  assert.equal((await json("/clusters?format=json")).endpoints[0].active, 4);
  assert.equal(
    await (await ask("/listeners")).text(),
    "inbound::0.0.0.0:21000::failed::the address is in use\n" +
      "service:default/default/db::127.0.0.1:9191\n",
  );
  assert.equal((await json("/listeners?format=json")).listeners[0].connections, 2);
});

test("admin says which listener refuses everything, and what is wrong with a proxy that serves", async () => {
  const { view, ask, json } = admin();
  const [first, ...others] = await view.data();
  assert.ok(first);
  const listeners = first.listeners.map((listener) => ({
    ...listener,
    fault: listener.direction === "outbound" ? "our own certificate expired" : "",
  }));
  view.data = () => Promise.resolve([...others, { ...first, listeners }]);
  view.warnings = ["listener db refuses every connection: our own certificate expired"];
  assert.match(
    await (await ask("/listeners")).text(),
    /^\S*db::127\.0\.0\.1:9191::unusable::our own certificate expired$/m,
  );
  assert.match(
    await (await ask("/stats/prometheus")).text(),
    /^postern_listener_usable\{direction="outbound",listener="\S*db"\} 0$/m,
  );
  const info = await json("/server_info");
  assert.deepEqual([info.state, info.warnings, info.listeners], ["LIVE", view.warnings, {
    total: 2,
    unusable: 1,
  }]);
  const page = await (await ask("/")).text();
  assert.match(page, /2, 1 of them carry no traffic/);
  assert.match(page, /<li>listener db refuses every connection/);
});

test("admin /connections counts all and shows as many as asked for", async () => {
  const { ask, json } = admin();
  assert.equal((await json("/connections")).connections.length, 2);
  const limited = await json("/connections?limit=1");
  assert.deepEqual([limited.total, limited.connections.length], [2, 1]);
  assert.equal((await json("/connections?listener=other")).total, 0);
  for (const limit of ["-1", "x", "1e9"]) {
    assert.equal((await ask(`/connections?limit=${limit}`)).status, 400);
  }
});

test("admin /server_info names version and state", async () => {
  const { view, json } = admin();
  await view.clock.advance(61_500);
  const info = await json("/server_info");
  assert.equal(info.state, "LIVE");
  assert.equal(info.uptime_current_epoch, "61s");
  assert.deepEqual(info.limits, { open_files: 1_024, max_connections: 341 });
  assert.deepEqual(info.node, { id: "web-1-sidecar-proxy", cluster: "web" });
});

test("admin /logging shows and sets the level", async () => {
  const { view, ask, json } = admin();
  assert.deepEqual(await json("/logging"), { level: "info" });
  assert.equal((await ask("/logging?level=DEBUG", { method: "POST" })).status, 200);
  assert.equal(view.logLevel(), "debug");
  assert.equal((await ask("/logging?level=loud", { method: "POST" })).status, 400);
  assert.equal((await ask("/logging", { method: "POST" })).status, 400);
  assert.equal(view.logLevel(), "debug");
});

test("admin drains and quits only when told so by POST", async () => {
  const { view, ask } = admin();
  for (const path of ["/drain_listeners", "/quitquitquit"]) {
    const reply = await ask(path);
    assert.equal(reply.status, 405);
    assert.equal(reply.headers.get("allow"), "POST");
  }
  assert.deepEqual(view.calls, []);
  await ask("/drain_listeners", { method: "POST" });
  await ask("/quitquitquit", { method: "POST" });
  assert.deepEqual(view.calls, ["drain", "quit"]);
});

for (
  const [name, headers, status] of [
    ["the bound address", { host: "127.0.0.1:19000" }, 200],
    ["localhost", { host: "localhost:19000" }, 200],
    ["loopback in IPv6", { host: "[::1]:19000" }, 200],
    ["a name that resolves here", { host: "evil.example:19000" }, 403],
    ["a name that looks like ours", { host: "localhost.evil.example" }, 403],
    ["an address that is not ours", { host: "10.0.0.1:19000" }, 403],
    ["an empty Host", { host: "" }, 403],
    ["two hosts", { host: "localhost, evil.example" }, 403],
    ["a user in Host", { host: "localhost@evil.example" }, 403],
    ["its own origin", { origin: "http://127.0.0.1:19000" }, 200],
    ["another origin", { origin: "http://evil.example" }, 403],
    ["another port's origin", { origin: "http://127.0.0.1:8080" }, 403],
    ["no origin of its own", { origin: "null" }, 403],
    ["a page elsewhere that posts", { "sec-fetch-site": "cross-site" }, 403],
    ["its own page that posts", { "sec-fetch-site": "same-origin" }, 200],
    ["a body", { "content-length": "100000" }, 413],
  ] as const
) {
  test(`admin answers ${status} to ${name}`, async () => {
    const { view, ask } = admin();
    const reply = await ask("/drain_listeners", { method: "POST", headers: { ...headers } });
    assert.equal(reply.status, status, await reply.text());
    assert.deepEqual(view.calls, status === 200 ? ["drain"] : []);
  });
}

for (
  const [bound, host, status] of [
    ["0.0.0.0", "10.1.2.3:19000", 200],
    ["0.0.0.0", "evil.example:19000", 403],
    ["::", "[fd00::1]:19000", 200],
    ["10.1.2.3", "10.1.2.3:19000", 200],
    ["10.1.2.3", "10.1.2.4:19000", 403],
    ["fd00::1", "[fd00::1]:19000", 200],
    ["admin.internal", "Admin.Internal:19000", 200],
  ] as const
) {
  test(`admin bound to ${bound} answers ${status} to ${host}`, async () => {
    const app = createAdmin(fakeAdminView(), { boundHost: bound });
    assert.equal((await app.request("/live", { headers: { host } })).status, status);
  });
}

test("admin escapes what it shows on its page", async () => {
  const text = await (await admin().ask("/")).text();
  assert.match(text, /upstream &lt;x&gt;/);
  assert.ok(!text.includes("<x>") && !text.includes("<db>"));
  assert.doesNotMatch(text, /(?:src|href)="(?:https?:)?\/\//);
});

test("admin says which paths there are", async () => {
  const reply = await admin().ask("/nothing");
  assert.equal(reply.status, 404);
  assert.match(await reply.text(), /\/ready/);
});

test("admin answers 500 with the fact when a worker does not", async () => {
  const { view, ask } = admin();
  view.data = () => Promise.reject(new Error(`worker 1 is gone, ${TOKEN}`));
  const reply = await createAdmin(view, { boundHost: "127.0.0.1" }).request("/stats", {
    headers: LOCAL,
  });
  assert.equal(reply.status, 500);
  assert.equal(await reply.text(), "Cannot answer: worker 1 is gone, (not shown)\n");
  assert.equal((await ask("/ready")).status, 200);
});
