import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeAdminView, TOKEN } from "../../test/kit/admin/admin_view.ts";
import { createAdmin } from "./admin.ts";

function admin() {
  const view = fakeAdminView();
  const app = createAdmin(view, { boundHost: "127.0.0.1" });
  const ask = (path: string, init: RequestInit = {}) =>
    app.request(path, { ...init, headers: { host: "127.0.0.1:19000" } }, { peer: "127.0.0.1" });
  return { view, ask };
}

test("admin /plugins adds up the workers and shows the worst state of each plugin", async () => {
  const { ask } = admin();
  assert.deepEqual(JSON.parse(await (await ask("/plugins")).text()), {
    plugins: [{
      listener: "inbound",
      name: "own",
      at: "inbound.plugins[0]",
      use: "consul-kv:plugins/own",
      source: "consul-kv",
      sha256: "ab12",
      pinned: true,
      upstream: "",
      routes: ["routes[0]"],
      phase: "filter",
      onFailure: "skip",
      generation: 7,
      state: "broken",
      exchanges: 20,
      failures: 1,
      lastFailure: { reason: "oh no (not shown)", at: "1970-01-01T00:00:00.000Z" },
    }],
  });
  const page = await (await ask("/")).text();
  assert.match(page, /plugin own of inbound is not called for a while: oh no \(not shown\)/);
});

test("admin /config_dump lists plugins without their configuration", async () => {
  const { view, ask } = admin();
  const snapshot = view.snapshot();
  const inbound = snapshot?.inbound["inbound"];
  assert.ok(snapshot && inbound);
  const plugins = [{
    plugin: "signs",
    config: { hmac: "c2VjcmV0" },
    onFailure: "refuse",
    at: "inbound.plugins[0]",
  }] as const;
  view.snapshot = () => ({ ...snapshot, inbound: { inbound: { ...inbound, plugins } } });
  const text = await (await ask("/config_dump")).text();
  assert.match(text, /"plugin": "signs"/);
  assert.doesNotMatch(text, /c2VjcmV0/);
});

test("admin POST /plugins/reload returns the snapshot and generation in force", async () => {
  const { ask } = admin();
  const reply = await ask("/plugins/reload", { method: "POST" });
  assert.equal(reply.status, 200);
  assert.deepEqual(JSON.parse(await reply.text()), { snapshot: 8, generation: 7 });
  assert.equal((await ask("/plugins/reload")).status, 405);
});

test("admin POST /plugins/reload answers 409 with the reason of a refusal", async () => {
  const { view, ask } = admin();
  view.reloaded = { kind: "refused", reason: `snapshot: no plugin ${TOKEN}` };
  const reply = await ask("/plugins/reload", { method: "POST" });
  assert.equal(reply.status, 409);
  assert.equal(
    await reply.text(),
    "Refused, and the last good state of it serves on: snapshot: no plugin (not shown)\n",
  );
});
