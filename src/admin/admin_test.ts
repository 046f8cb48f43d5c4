import { strict as assert } from "node:assert";
import { test } from "node:test";
import { fakeAdminView, TOKEN } from "../../test/kit/admin/admin_view.ts";
import { declared, intention, targetOf } from "../../test/kit/engine/snapshots.ts";
import { createAdmin } from "./admin.ts";
import { PATHS } from "./home.ts";
import type { AdminView } from "./view.ts";

const LOCAL = { host: "127.0.0.1:19000" };
const HERE = { peer: "127.0.0.1" };
/** All but the page that never ends. */
const GET_PATHS = ["/", ...PATHS.filter(([, , method]) => !method).map(([path]) => path)]
  .filter((path) => path !== "/tap");

function admin() {
  const view = fakeAdminView();
  const app = createAdmin(view, { boundHost: "127.0.0.1" });
  const ask = (path: string, init: RequestInit = {}) =>
    app.request(path, { ...init, headers: { ...LOCAL, ...init.headers } }, HERE);
  const json = async (path: string) => JSON.parse(await (await ask(path)).text());
  return { view, app, ask, json };
}

for (const path of GET_PATHS) {
  test(`admin ${path} answers, and shows neither key nor token`, async () => {
    const { view, ask } = admin();
    for (const query of ["", "?format=json", "?format=postern", "?limit=1"]) {
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

  test(`admin ${path} refuses other methods with 405 and Allow`, async () => {
    const { ask } = admin();
    for (const method of ["DELETE", "PUT", "OPTIONS", "PATCH"]) {
      const reply = await ask(path, { method });
      assert.equal(reply.status, 405);
      assert.match(reply.headers.get("allow") ?? "", /GET, HEAD/);
    }
  });
}

test("admin /config_dump shows certificates, and no page a key in a field that it shows", async () => {
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

test("admin /config_dump shows permissions without the header values that they match", async () => {
  const { view, json } = admin();
  const snapshot = view.snapshot();
  assert.ok(snapshot);
  const header = { kind: "exact", ignoreCase: false, invert: false } as const;
  const headers = [
    { ...header, name: "x-api", value: "precious" },
    { ...header, name: "x-any", kind: "present", value: "" },
  ] as const;
  const permissions = [{ action: "allow", methods: ["GET"], headers }] as const;
  const intentions = [{ ...intention("web", "permissions"), permissions }];
  view.snapshot = () => ({ ...snapshot, policy: { ...snapshot.policy, intentions } });
  const [shown] = (await json("/config_dump")).snapshot.policy.intentions;
  assert.deepEqual(shown.permissions[0].headers, [
    { ...headers[0], value: "(not shown)" },
    headers[1],
  ]);
});

test("admin shows no user and password of an address, and no invisible characters", async () => {
  const { view } = admin();
  const hostile: Partial<AdminView> = {
    refused:
      () => [{ what: "http://user:hushed@agent \u202eevil\u009b2J", reason: "\u2028\u2066" }],
    stuck: () => Promise.resolve(["\u202e"]),
    secretsReport: () => ({
      statuses: [],
      events: [{
        atMs: 0,
        kind: "rejected",
        name: "\u202e",
        source: "u:hushed@h",
        detail: "\u200f",
      }],
    }),
  };
  const slipped = createAdmin({ ...view, ...hostile }, { boundHost: "127.0.0.1" });
  for (const path of ["/", "/config_dump", "/events", "/events?format=text", "/ready"]) {
    const text = await (await slipped.request(path, { headers: LOCAL })).text();
    assert.doesNotMatch(
      text,
      /hushed|[\u0080-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/,
      path,
    );
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
      "ready, with warnings and refused upstreams",
      {
        warnings: ["listener x is not bound: in use"],
        refused: () => [{ what: "upstream db", reason: "no mesh gateways" }],
      },
      200,
      "LIVE\n" +
      "warning: listener x is not bound: in use\n" +
      "warning: upstream db: no mesh gateways\n",
    ],
    ["draining", { drained: true }, 503, "DRAINING\ndraining: no new connections\n"],
  ] as const
) {
  test(`admin /ready says ${name}`, async () => {
    const { view, ask } = admin();
    Object.assign(view, { refused: () => [] }, change);
    const reply = await ask("/ready");
    assert.equal(reply.status, status);
    assert.equal(await reply.text(), want);
    assert.equal((await ask("/live")).status, 200);
    assert.equal((await ask("/ready", { method: "HEAD" })).status, status);
  });
}

test("admin /live names the data path that is stuck", async () => {
  const { view, ask } = admin();
  assert.equal(await (await ask("/live")).text(), "LIVE\n");
  view.stuckPaths = ["data worker 1 has not answered for 2 s"];
  const reply = await ask("/live");
  assert.equal(reply.status, 503);
  assert.equal(await reply.text(), "STUCK\ndata worker 1 has not answered for 2 s\n");
});

test("admin /stats sums the workers and filters", async () => {
  const { ask, json } = admin();
  assert.equal(
    await (await ask("/stats?filter=^(connections|listener_usable|snapshot)")).text(),
    'connections_total{direction="inbound"}: 6\n' +
      'listener_usable{direction="inbound",listener="inbound"}: 0\n' +
      'listener_usable{direction="outbound",listener="service:default/default/db"}: 1\n' +
      "snapshot_version: 7\n",
  );
  assert.equal(await (await ask("/stats?filter=version")).text(), "snapshot_version: 7\n");
  assert.equal((await json("/stats?format=json&filter=conn")).stats[0].value, 6);
  assert.equal((await ask("/stats?filter=(")).status, 400);
  // Our labels hold parts of Envoy's names: the filter sees the whole line up to the value.
  for (
    const [filter, lines] of [
      ["default/db", 1],
      ['listener="(in|out)bound"', 1],
      ["^connections_total\\{.*\\}$", 1],
      ["6", 0],
    ] as const
  ) {
    for (const path of ["/stats?", "/stats?format=prometheus&", "/stats/prometheus?"]) {
      const text = await (await ask(`${path}filter=${encodeURIComponent(filter)}`)).text();
      assert.equal(text.split("\n").filter((line) => /^[^#]/.test(line)).length, lines, path);
    }
    const { stats } = await json(`/stats?format=json&filter=${encodeURIComponent(filter)}`);
    assert.equal(stats.length, lines);
  }
  assert.equal((await ask("/stats?format=xml")).status, 400);
  const prometheus = await ask("/stats/prometheus");
  assert.match(prometheus.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  assert.match(await prometheus.text(), /^postern_connections_total\{direction="inbound"\} 6$/m);
});

test("admin /certs shows the days left of each certificate", async () => {
  const { view, json } = admin();
  const certs = await json("/certs");
  // Valid for three days, from a minute before it was issued.
  assert.equal(certs.leaf.daysLeft, 2.99);
  assert.deepEqual(certs.leaf.uris, [certs.uri]);
  assert.match(certs.uri, /^spiffe:\/\/.*\/svc\/web$/);
  assert.equal(certs.roots.length, 1);
  assert.ok(certs.roots[0].daysLeft > 3_000);
  assert.deepEqual(certs.errors, []);
  await view.clock.advance(4 * 86_400_000);
  assert.equal((await json("/certs")).leaf.daysLeft, -1.01);
});

test("admin /clusters gives the reason why a target has no instance", async () => {
  const { view, ask, json } = admin();
  const snapshot = view.snapshot();
  assert.ok(snapshot);
  const overrides = { lack: "nobody is registered" };
  const targets = {
    db: targetOf({ name: "db", uris: [], ports: [], overrides }),
    api: targetOf({ name: "api", uris: [], ports: [1] }),
  };
  view.snapshot = () => ({ ...snapshot, targets, ...declared({ name: "db" }) });
  const text = await (await ask("/clusters")).text();
  assert.match(text, /^db\.default\.dc1\.\S*::no_endpoint::nobody is registered$/m);
  const { lacking } = await json("/clusters?format=postern");
  assert.deepEqual(lacking, [{ target: "db", lack: "nobody is registered" }]);
});

test("admin /clusters and /listeners join the workers", async () => {
  const { ask, json } = admin();
  const [endpoint] = (await json("/clusters?format=postern")).endpoints;
  assert.deepEqual([endpoint.active, endpoint.health], [4, "healthy"]);
  assert.equal(
    await (await ask("/listeners")).text(),
    "public_listener:127.0.0.1:21000::0.0.0.0:21000::failed::the address is in use\n" +
      "service:default/default/db:127.0.0.1:9191::127.0.0.1:9191\n",
  );
  assert.equal((await json("/listeners?format=postern")).listeners[0].connections, 2);
});

test("admin shows a listener that refuses every connection, and the warnings of a ready proxy", async () => {
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
    /^\S*db:127\.0\.0\.1:9191::127\.0\.0\.1:9191::unusable::our own certificate expired$/m,
  );
  assert.match(
    await (await ask("/stats/prometheus")).text(),
    /^postern_listener_usable\{direction="outbound",listener="\S*db"\} 0$/m,
  );
  const { state, postern: info } = await json("/server_info");
  assert.deepEqual([state, info.warnings, info.listeners], ["LIVE", view.warnings, {
    total: 2,
    unusable: 1,
  }]);
  const page = await (await ask("/")).text();
  assert.match(page, /2, 1 of them carry no traffic/);
  assert.match(page, /<li>listener db refuses every connection/);
});

test("admin /connections counts all and lists at most ?limit=", async () => {
  const { ask, json } = admin();
  assert.equal((await json("/connections")).connections.length, 2);
  const limited = await json("/connections?limit=1");
  assert.deepEqual([limited.total, limited.connections.length], [2, 1]);
  assert.equal((await json("/connections?listener=other")).total, 0);
  for (const limit of ["-1", "x", "1e9"]) {
    assert.equal((await ask(`/connections?limit=${limit}`)).status, 400);
  }
});

test("admin /explain passes the query to the workers and shows their answer", async () => {
  const { view, ask, json } = admin();
  const path = "/explain?upstream=db&method=PUT&path=/a?b&header=x:1&header=y:2";
  const shown = await json(path.replace("?b", "%3Fb"));
  assert.deepEqual(view.questions, [{
    to: { kind: "upstream", name: "db" },
    source: "",
    method: "PUT",
    host: undefined,
    path: "/a?b",
    headers: ["x:1", "y:2"],
    connects: true,
  }]);
  assert.deepEqual([shown.workers, shown.verdict], [2, "failing"]);
  const text = await ask(`${path}&format=text`);
  assert.match(
    await text.text(),
    /^proxy +web-1-sidecar-proxy of service web, admin server 127.0.0.1:19000\nrequest +PUT db\/a\n/,
  );
  view.explained = [{ kind: "unknown", reason: `there is no "x" ${TOKEN}` }];
  const unknown = await ask("/explain?listener=x");
  assert.equal(unknown.status, 404);
  assert.equal(await unknown.text(), 'Cannot explain: there is no "x" (not shown)\n');
  view.explained = [{ kind: "invalid", reason: "a path" }];
  assert.equal((await ask("/explain?path=x")).status, 400);
  view.explained = [];
  assert.equal((await ask("/explain")).status, 503);
});

test("admin /server_info names version and state", async () => {
  const { view, json } = admin();
  await view.clock.advance(61_500);
  const info = await json("/server_info");
  assert.equal(info.state, "LIVE");
  assert.equal(info.uptime_current_epoch, "61s");
  assert.equal(info.version, "abc1234/0.1.0/Clean/RELEASE/postern");
  assert.deepEqual(info.postern.limits, { open_files: 1_024, max_connections: 341 });
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

test("admin drains and quits on POST only", async () => {
  const { view, ask } = admin();
  for (const path of ["/drain_listeners", "/quitquitquit"]) {
    const reply = await ask(path);
    assert.equal(reply.status, 405);
    assert.equal(reply.headers.get("allow"), "POST");
  }
  assert.deepEqual(view.calls, []);
  await ask("/drain_listeners", { method: "POST" });
  await ask("/drain_listeners?inboundonly&graceful&skip_exit", { method: "POST" });
  await ask("/quitquitquit", { method: "POST" });
  assert.deepEqual(view.calls, ["drain", "drain inbound", "quit"]);
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
    ["a POST of a page elsewhere", { "sec-fetch-site": "cross-site" }, 403],
    ["a POST of its own page", { "sec-fetch-site": "same-origin" }, 200],
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

for (
  const [name, host, status] of [
    ["this machine's name", "Web-1:19000", 200],
    ["its name in full", "web-1.internal:19000", 200],
    ["a name that begins with it", "web-1.evil.example:19000", 403],
  ] as const
) {
  test(`admin answers ${status} to ${name}`, async () => {
    const names = ["web-1", "web-1.internal"];
    const app = createAdmin(fakeAdminView(), { boundHost: "10.1.2.3", names });
    assert.equal((await app.request("/live", { headers: { host } })).status, status);
  });
}

for (
  const [name, peer, shown, token, status] of [
    ["this machine", "127.0.0.1", undefined, false, 200],
    ["this machine in IPv6", "::1", undefined, false, 200],
    ["this machine through a socket for both", "::ffff:127.0.0.2", undefined, false, 200],
    ["another machine", "10.1.2.4", undefined, false, 403],
    ["another machine through a socket for both", "::ffff:10.1.2.4", undefined, false, 403],
    ["an unknown address", "", undefined, false, 403],
    [
      "another machine with a token where none is configured",
      "10.1.2.4",
      "Bearer secret",
      false,
      403,
    ],
    ["another machine with the token", "10.1.2.4", "Bearer secret", true, 200],
    ["another machine with another token", "10.1.2.4", "Bearer guess", true, 403],
    ["this machine without the configured token", "127.0.0.1", undefined, true, 403],
  ] as const
) {
  test(`admin answers ${status} to a change from ${name}`, async () => {
    const view = fakeAdminView();
    const app = createAdmin(view, {
      boundHost: "0.0.0.0",
      ...(token && {
        tokenFault: (given) => given === "Bearer secret" ? undefined : "it is not the token",
      }),
    });
    const headers = { host: "10.1.2.3:19000", ...(shown && { authorization: shown }) };
    const ask = (path: string, method: string) => app.request(path, { method, headers }, { peer });
    for (const path of ["/quitquitquit", "/drain_listeners", "/logging?level=debug"]) {
      assert.equal((await ask(path, "POST")).status, status);
    }
    assert.deepEqual(view.calls, status === 200 ? ["quit", "drain"] : []);
    assert.equal(view.logLevel(), status === 200 ? "debug" : "info");
    // Reading stays allowed.
    assert.equal((await ask("/live", "GET")).status, 200);
  });
}

test("admin / escapes texts and loads nothing else", async () => {
  const text = await (await admin().ask("/")).text();
  assert.match(text, /upstream &lt;x&gt;/);
  assert.ok(!text.includes("<x>") && !text.includes("<db>"));
  assert.doesNotMatch(text, /(?:src|href)="(?:https?:)?\/\//);
});

test("admin answers 404 with a list of its paths", async () => {
  const reply = await admin().ask("/nothing");
  assert.equal(reply.status, 404);
  assert.match(await reply.text(), /\/ready/);
});

test("admin answers 500 with the error when a worker fails", async () => {
  const { view, ask } = admin();
  view.data = () => Promise.reject(new Error(`worker 1 is gone, ${TOKEN}`));
  const reply = await createAdmin(view, { boundHost: "127.0.0.1" }).request("/stats", {
    headers: LOCAL,
  });
  assert.equal(reply.status, 500);
  assert.equal(await reply.text(), "Cannot answer: worker 1 is gone, (not shown)\n");
  assert.equal((await ask("/ready")).status, 200);
});

for (
  const [name, inCatalog, status, body] of [
    ["passes", { kind: "known", failing: [] }, 200, /^LIVE\n/],
    [
      "does not pass",
      { kind: "known", failing: [`check <x> ${TOKEN}`] },
      503,
      /^NOT_PASSING\ncheck/,
    ],
    ["is a gateway", { kind: "unsupported", reason: "a gateway" }, 400, /catalog: a gateway\n$/],
  ] as const
) {
  test(`admin /ready?catalog of an instance that ${name}: ${status}`, async () => {
    const { view, ask } = admin();
    view.inCatalog = inCatalog;
    const reply = await ask("/ready?catalog");
    assert.equal(reply.status, status);
    const text = await reply.text();
    assert.match(text, body);
    assert.ok(!text.includes(TOKEN));
    assert.equal((await ask("/ready")).status, 200);
  });
}

test("admin /ready?catalog does not read the catalog while the proxy is not ready", async () => {
  const { view, ask } = admin();
  view.ready = false;
  view.catalog = () => Promise.reject(new Error("asked"));
  const reply = await ask("/ready?catalog");
  assert.equal(reply.status, 503);
  assert.match(await reply.text(), /^INITIALIZING\n/);
});
