/**
 * A proxy beside servers logs in with the token of its platform, and gives its Consul token back.
 */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { SERVERS } from "../kit/mesh/cluster.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { assertFlawless, Load } from "../kit/wire/load.ts";
import { type Logins, loginsOf } from "../kit/mesh/login.ts";
import { rounds } from "../kit/clock/long.ts";
import type { Mesh } from "../kit/mesh/mesh.ts";
import type { Postern } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";

test("a login's token is replaced when an operator deletes it, and given back at the end", async () => {
  await using story = await startStory();
  const { mesh, logins, upstream } = story;
  await logins.create();
  const bearer = await logins.bearer();
  await using web = await story.start(["-login-meta", "pod=default/web-1"]);
  await web.waitReady();
  await using load = new Load(upstream);
  const [first, ...others] = await logins.tokens();
  assert.ok(first && others.length === 0, "it has logged in once");
  assert.match(first.Description, /"pod":"default\/web-1"/);
  // A token that is so new may only be unknown to a server that lags.
  await eventually("the token is old enough to be missed", () => loggedInMs(web) > 5_500);

  const deleted = await mesh.call("DELETE", `/v1/acl/token/${first.AccessorID}`);
  assert.equal(deleted.status, 200);
  await web.process.waitFor(/does not know the token any more/, { timeoutMs: 30_000 });
  const second = await eventually("it has another token", async () => (await logins.tokens())[0]);
  const later = await story.registerLater();
  await waitForEcho(later, { timeoutMs: 60_000 });
  assertFlawless(await load.stop({ atLeast: 51 }), { atLeast: 51 });

  const { body } = await web.admin("/config_dump");
  const { accessorId, failures } = JSON.parse(body).source.servers.login;
  assert.deepEqual([accessorId, failures], [second.AccessorID, 0]);
  assert.equal((await web.stop()).code, 0);
  assert.deepEqual(await logins.tokens(), []);
  for (const secret of [bearer, first.SecretID, second.SecretID]) {
    assert.ok(!web.output.includes(secret) && !body.includes(secret), "a secret is shown");
  }
});

test("a login's token that lasts a minute is renewed before that, and nothing is cut", async () => {
  const renewals = rounds("renewals of a login, a minute each", { few: 0, all: 2 });
  if (renewals === 0) return;
  await using story = await startStory({ ttl: "1m" });
  const { logins, upstream } = story;
  await logins.create();
  await logins.bearer();
  await using web = await story.start([]);
  await web.waitReady();
  await using load = new Load(upstream);
  const seen = new Set<string>();
  await eventually("all renewals are over, and the old tokens gone", async () => {
    const tokens = await logins.tokens();
    assert.ok(tokens.length > 0, "it was never without a token");
    for (const { AccessorID } of tokens) seen.add(AccessorID);
    return seen.size > renewals && tokens.length === 1;
  }, { timeoutMs: (renewals + 1) * 60_000 });
  assert.equal(seen.size, renewals + 1);
  await waitForEcho(await story.registerLater(), { timeoutMs: 10_000 });
  assertFlawless(await load.stop({ atLeast: 1_000 }), { atLeast: 1_000 });
  assert.doesNotMatch(web.output, /ACL not found|\[ERROR\]/);
  assert.equal(await web.metric("postern_server_moves_total"), 0);
});

test("a proxy whose login is refused logs the reason, and logs in once it is permitted", async () => {
  await using story = await startStory();
  const { logins } = story;
  await using web = await story.start([]);
  const says = (reason: RegExp) => web.process.waitFor(reason, { timeoutMs: 60_000 });
  await says(/not logged in to consul[^\n]*bearer token file[^\n]*cannot be read/);
  await eventually("readiness says so", async () => {
    const { status, body } = await web.admin("/ready");
    return status === 503 && /cannot be read/.test(body);
  });
  await logins.bearer({ aud: "nobody" });
  await says(/auth method[^\n]*not found[^\n]*create/);
  await logins.create();
  await says(/aud claim does not match[^\n]*BoundAudiences/);
  await logins.bearer();
  await web.waitReady();
  await waitForEcho(story.upstream);
  assert.doesNotMatch(web.output, /ACL not found \(|anonymous/, "nothing is asked without a token");

  // An operator takes the method out, with all of its tokens, and puts it back.
  await using load = new Load(story.upstream);
  await eventually("the token is old enough to be missed", () => loggedInMs(web) > 5_500);
  await logins.remove();
  const before = web.output.length;
  await eventually("it is refused", () => /method[^\n]*not found/.test(web.output.slice(before)), {
    timeoutMs: 60_000,
  });
  await logins.create();
  await eventually("it has a token again", async () => (await logins.tokens()).length === 1, {
    timeoutMs: 60_000,
  });
  await waitForEcho(await story.registerLater(), { timeoutMs: 60_000 });
  assertFlawless(await load.stop({ atLeast: 51 }), { atLeast: 51 });
});

test("a proxy that ends before it has begun leaves no token", async () => {
  await using story = await startStory();
  const { logins } = story;
  await logins.create();
  await logins.bearer();
  await using unknown = await story.start([], { id: "nobody-there" });
  await using stopped = await story.start([]);
  const loggedIn = (web: Postern) =>
    web.process.waitFor(/logged in to consul/, { timeoutMs: 60_000 });
  await Promise.all([loggedIn(unknown), loggedIn(stopped)]);
  unknown.expectEnd();
  assert.equal((await stopped.stop()).code, 0);
  assert.notEqual((await unknown.process.exited).code, 0);
  assert.deepEqual(await logins.tokens(), []);
});

async function startStory({ ttl }: { readonly ttl?: string } = {}) {
  await using own = new AsyncDisposableStack();
  const mesh: Mesh = own.use(await SERVERS.start({ acl: true }));
  const directory = await mkdtemp(join(tmpdir(), "postern-login-"));
  own.defer(() => rm(directory, { recursive: true, force: true }));
  const app = own.use(await mesh.echo());
  own.use(await mesh.serve({ name: "db", port: app.port }));
  await mesh.intention("web", "db", "allow");
  const upstream = { name: "db", ...await mesh.place() };
  const web = { name: "web", upstreams: [upstream] };
  const id = await mesh.register(web);
  const logins: Logins = loginsOf(mesh, { directory, ...(ttl ? { ttl } : {}) });
  const owned = own.move();
  return {
    mesh,
    logins,
    upstream,
    start: (args: readonly string[], { id: proxied = id } = {}): Promise<Postern> =>
      Promise.resolve(mesh.runSidecar(proxied, { args: [...logins.flags, ...args] })),
    /** Another name of db's becomes an upstream. */
    async registerLater() {
      const later = { name: "db2", ...await mesh.place() };
      const Redirect = { Service: "db" };
      await mesh.configEntry({ Kind: "service-resolver", Name: "db2", Redirect });
      await mesh.register({ ...web, upstreams: [upstream, later] });
      return later;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Since it logged in, by its own log; 0: it has not. */
function loggedInMs({ output }: Postern): number {
  const line = output.split("\n").find((text) => text.includes("logged in to consul")) ?? "";
  const at = Date.parse(line.match(/\d{4}-\d\d-\d\dT[\d:.]+Z?/)?.[0] ?? "");
  return Number.isNaN(at) ? 0 : Date.now() - at;
}
