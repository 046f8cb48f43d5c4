import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { fakeAdminView } from "../../../test/kit/admin/admin_view.ts";
import { type AskAdmin, askAdmin, startAdmin } from "../../admin/mod.ts";
import { silentLog } from "../../base/mod.ts";
import { createPeersLook } from "./peers.ts";

const BIND = { kind: "address", host: "127.0.0.1", port: 0 } as const;

test("createPeersLook() shows what other admin servers say, and neither asks itself nor too often", async () => {
  await using own = new AsyncDisposableStack();
  const views = [fakeAdminView(), fakeAdminView()] as const;
  views[1].ready = false;
  const admins = await Promise.all(views.map(async (view) => {
    const server = await startAdmin(view, { bind: BIND }, silentLog);
    own.defer(() => server.close());
    return server.address;
  }));
  const asked: string[] = [];
  const ask: AskAdmin = (admin, question) => {
    asked.push(`${admin.port} ${question.path}`);
    return askAdmin(admin, question);
  };
  const { clock } = views[0];
  const self = { host: "127.0.0.1", port: 1 };
  const look = createPeersLook({ clock, ask, admins: [...admins, self], own: () => self });
  const [ready, starting, ...others] = await look();
  assert.deepEqual(others, []);
  assert.deepEqual([ready?.service, ready?.proxyId, ready?.state, ready?.version], [
    "web",
    "web-1-sidecar-proxy",
    "ready",
    "0.1.0",
  ]);
  assert.match(ready?.identity ?? "", /^spiffe:.*\/svc\/web$/);
  assert.match(ready?.troubles.join() ?? "", /mesh gateways are not there yet/);
  assert.deepEqual([starting?.state, starting?.troubles[0]], [
    "not ready",
    "waiting for the leaf certificate",
  ]);
  assert.equal(asked.length, 6);
  await look();
  assert.equal(asked.length, 6, "a viewer right afterwards gets the same");
  await clock.advance(5_000);
  assert.equal((await look())[1]?.state, "not ready");
  assert.equal(asked.length, 12, "and a later one makes it ask again");
});

test("createPeersLook() bounds and names what is no proxy", async () => {
  const server = createServer((request, response) => {
    // The answer of a page never ends, in drops.
    if (request.url !== "/server_info") return void response.write("x");
    response.end(JSON.stringify({ node: { id: 1 } }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const admins = [{ host: "127.0.0.1", port: (server.address() as AddressInfo).port }];
  const { clock } = fakeAdminView();
  const look = createPeersLook({ clock, ask: askAdmin, admins, own: () => undefined });
  const [stranger] = await look();
  assert.deepEqual([stranger?.state, stranger?.troubles], [
    "no answer",
    ["it is not a proxy of this kind"],
  ]);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

test("askAdmin() ends with its signal, although the answer comes in drops", async () => {
  const server = createServer((_request, response) => {
    response.write("x");
    const drops = setInterval(() => response.write("x"), 20);
    response.once("close", () => clearInterval(drops));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const place = { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
  const question = { path: "/", timeoutMs: 5_000, signal: AbortSignal.timeout(150) };
  await assert.rejects(askAdmin(place, question));
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
