import assert from "node:assert/strict";
import test from "node:test";
import { fakeAdminView } from "../../test/kit/admin/admin_view.ts";
import { createAdmin } from "./admin.ts";

function admin() {
  const view = fakeAdminView();
  const app = createAdmin(view, { boundHost: "127.0.0.1" });
  const ask = (path: string) =>
    app.request(path, { headers: { host: "127.0.0.1:19000" } }, { peer: "127.0.0.1" });
  const json = async (path: string) => JSON.parse(await (await ask(path)).text());
  return { view, ask, json };
}

test("admin / shows the Consul server in use, or the failure when there is none", async () => {
  const { view, ask, json } = admin();
  assert.doesNotMatch(await (await ask("/")).text(), /Consul server/);
  const source = view.source() ?? assert.fail();
  const servers = {
    server: "10.0.0.2",
    sinceMs: view.clock.now() - 61_000,
    known: ["10.0.0.2", "10.0.0.3"],
    moves: 3,
    lastFailure: "10.0.0.3: <refused>",
  };
  view.source = () => ({ ...source, servers });
  assert.match(
    await (await ask("/")).text(),
    /Consul server<\/th>\s*<td>10\.0\.0\.2 for 1m1s \(2 known, 3 moves\)</,
  );
  assert.deepEqual((await json("/config_dump")).source.servers, servers);
  view.source = () => ({ ...source, servers: { ...servers, server: "", sinceMs: undefined } });
  assert.match(
    await (await ask("/")).text(),
    /none in use \(2 known, 3 moves\): 10\.0\.0\.3: &lt;refused&gt;</,
  );
});

test("admin / shows the login, or the failure when there is none", async () => {
  const { view, ask } = admin();
  const source = view.source() ?? assert.fail();
  const nowMs = view.clock.now();
  const servers = { server: "", sinceMs: undefined, known: [], moves: 0, lastFailure: "" };
  const good = {
    authMethod: "k8s",
    accessorId: "a-b",
    failures: 0,
    lastFailure: "",
    lastLoginMs: nowMs - 61_000,
    expiresMs: nowMs + 239_000,
  };
  const none = { ...good, accessorId: "", lastLoginMs: undefined, expiresMs: undefined };
  const failing = { failures: 2, lastFailure: "<no>" };
  for (
    const [login, want] of [
      [good, /<td>by k8s 1m1s ago, accessor a-b, ends in 3m59s</],
      [{ ...good, expiresMs: undefined, ...failing }, /accessor a-b; 2 failed: &lt;no&gt;</],
      [{ ...none, ...failing }, /<td>none by k8s so far; 2 failed: &lt;no&gt;</],
    ] as const
  ) {
    view.source = () => ({ ...source, servers: { ...servers, login } });
    assert.match(await (await ask("/")).text(), want);
  }
});

test("admin / counts open requests of HTTP connections", async () => {
  const { view, ask } = admin();
  assert.doesNotMatch(await (await ask("/")).text(), /open requests/);
  const [first] = await view.data();
  assert.ok(first);
  const carrying = (open: number) =>
    first.connections.map((connection) => ({
      ...connection,
      http: { version: "HTTP/2", open, total: 9, idleMs: 0, oldest: [] },
    }));
  view.data = () =>
    Promise.resolve([1, 2].map((open) => ({ ...first, connections: carrying(open) })));
  assert.match(await (await ask("/")).text(), /Open requests<\/dt>\s*<dd>3</);
});

test("admin / names the time that its numbers are of", async () => {
  const { view, ask } = admin();
  await view.clock.advance(5_000);
  const read = async () => (await (await ask("/")).text()).replace(/\s+/g, " ");
  const first = await read();
  assert.match(first, /<dt>Inbound, \S+ since the start<\/dt>/);
  assert.match(first, /Denied, refused or failed <small>since the start/);
  await view.clock.advance(4_000);
  const later = await read();
  for (
    const title of [/<dt>Inbound, last 4 s</, /Traffic <small>last 4 s</, /Upstreams <small>l/]
  ) {
    assert.match(later, title);
  }
});
