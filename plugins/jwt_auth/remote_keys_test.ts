import assert from "node:assert/strict";
import { after, test } from "node:test";
import { silentLog, Stats } from "../../src/base/mod.ts";
import { FakeClock, settle } from "../../src/kit/mod.ts";
import { PluginHost } from "../../src/plugin/host.ts";
import { SharedState } from "../../src/plugin/mod.ts";
import { bearer, mountJwtAuth, providerOf } from "../../test/kit/plugins/jwt_auth.ts";
import { keySetOf, makeIssuer, startKeyServer } from "../../test/kit/certs/tokens.ts";
import { JwtAuthConfig, type Remote } from "./config.ts";
import { RemoteKeys } from "./remote_keys.ts";
import * as v from "valibot";

const one = await makeIssuer("one");
const two = await makeIssuer("two");
const REMOTE = remoteOf({});

function remoteOf(more: object): Remote {
  const remote = { uri: "https://idp.example/keys", cacheDuration: "10m", ...more };
  const okta = providerOf(one, { jsonWebKeySet: { remote } });
  const { providers } = v.parse(JwtAuthConfig, {
    providers: { okta },
    require: { any: [{ provider: "okta" }] },
  });
  const keySet = providers.okta?.jsonWebKeySet;
  assert.ok(keySet && "remote" in keySet);
  return keySet.remote;
}

interface Rig {
  readonly clock: FakeClock;
  readonly keys: RemoteKeys;
  /** The next response; an error: the fetch fails. */
  answer: string | Error | Promise<string>;
  fetches: number;
}

function rig(remote = REMOTE): Rig {
  const clock = new FakeClock();
  const host = new PluginHost("jwt_auth", "inbound", {
    log: silentLog,
    stats: new Stats(),
    clock,
    shared: new SharedState(),
    random: () => 0,
  });
  const it: { -readonly [K in keyof Rig]: Rig[K] } = {
    clock,
    keys: new RemoteKeys(host, remote, async () => {
      it.fetches++;
      if (it.answer instanceof Error) throw it.answer;
      return await it.answer;
    }),
    answer: keySetOf(one),
    fetches: 0,
  };
  return it;
}

test("RemoteKeys are fetched again before they expire", async () => {
  const it = rig();
  const abort = new AbortController();
  const done = it.keys.follow(abort.signal);
  await settle();
  assert.equal(it.fetches, 1);
  await it.clock.advance(479_000);
  assert.equal(it.fetches, 1);
  await it.clock.advance(2_000);
  assert.equal(it.fetches, 2);
  abort.abort();
  await done;
  assert.equal(it.clock.pending, 0);
});

test("RemoteKeys are used for an hour after they expired, and not longer", async () => {
  const it = rig();
  const abort = new AbortController();
  const done = it.keys.follow(abort.signal);
  await settle();
  it.answer = new Error("gone");
  await it.clock.advance(600_000 + 3_599_000);
  assert.ok(it.keys.current);
  await it.clock.advance(2_000);
  assert.equal(it.keys.current, undefined);
  it.answer = keySetOf(two);
  await it.clock.advance(10_000);
  assert.ok(it.keys.current);
  abort.abort();
  await done;
});

test("RemoteKeys retries by the policy, then at its longest pause", async () => {
  const retryPolicy = {
    numRetries: 2,
    retryPolicyBackOff: { baseInterval: "1s", maxInterval: "20s" },
  };
  const it = rig(remoteOf({ retryPolicy }));
  it.answer = new Error("gone");
  const abort = new AbortController();
  const done = it.keys.follow(abort.signal);
  const counts: number[] = [];
  for (const ms of [0, 500, 1_000, 19_000, 1_000]) {
    await it.clock.advance(ms);
    counts.push(it.fetches);
  }
  assert.deepEqual(counts, [1, 2, 3, 3, 4]);
  abort.abort();
  await done;
});

test("RemoteKeys.newerThan() fetches once for all callers, and then pauses", async () => {
  const it = rig();
  await it.keys.fetch();
  const { current } = it.keys;
  const { promise, resolve } = Promise.withResolvers<string>();
  it.answer = promise;
  await it.clock.advance(9_999);
  assert.equal(await it.keys.newerThan(current), undefined);
  assert.equal(it.fetches, 1);
  await it.clock.advance(1);
  const both = [it.keys.newerThan(current), it.keys.newerThan(current)];
  await settle();
  resolve(keySetOf(one, two));
  const [first, second] = await Promise.all(both);
  assert.ok(first && first === second && first !== current);
  assert.equal(it.fetches, 2);
  assert.equal(await it.keys.newerThan(first), undefined);
  assert.equal(it.fetches, 2);
});

for (
  const [what, answer] of [
    ["not JSON", "<html>"],
    ["not a key set", "{}"],
    ["too many keys", JSON.stringify({ keys: Array(65).fill(one.jwk) })],
    ["an error", new Error("reset")],
  ] as const
) {
  test(`RemoteKeys keeps its keys if the answer is ${what}`, async () => {
    const it = rig();
    await it.keys.fetch();
    const { current } = it.keys;
    it.answer = answer;
    assert.equal(await it.keys.fetch(), false);
    assert.ok(current);
    assert.equal(it.keys.current, current);
  });
}

test("RemoteKeys ends a fetch at the request timeout", async () => {
  const it = rig(remoteOf({ requestTimeoutMs: 700 }));
  it.answer = new Promise(() => {});
  const fetched = it.keys.fetch();
  await it.clock.advance(700);
  assert.equal(await fetched, false);
  assert.equal(it.clock.pending, 0);
});

function configFor(uri: string): object {
  return {
    providers: { okta: providerOf(one, { jsonWebKeySet: { remote: { uri } } }) },
    require: { any: [{ provider: "okta" }] },
  };
}

test("jwt_auth refuses tokens until the keys of their issuer were fetched", async () => {
  await using server = await startKeyServer(keySetOf(one));
  server.status = 503;
  await using mounted = await mountJwtAuth(configFor(server.uri));
  const { plugin } = mounted;
  const request = { headers: bearer(await one.sign()) };
  assert.equal((await mounted.ask(request)).reason, "Jwks remote fetch is failed");
  // Once at the start and once by the background task; not for each request.
  assert.equal(plugin.stat("key_fetches"), 2);
  assert.equal((await mounted.ask(request)).status, 401);
  assert.equal(plugin.stat("key_fetches"), 2);
  server.status = 200;
  plugin.clock.advanceNow(10_000);
  assert.equal((await mounted.ask(request)).status, 200);
});

test("jwt_auth fetches keys for an unknown key name, after a pause", async () => {
  await using server = await startKeyServer(keySetOf(one));
  await using mounted = await mountJwtAuth(configFor(server.uri));
  const newer = { headers: bearer(await two.sign()) };
  assert.equal((await mounted.ask({ headers: bearer(await one.sign()) })).status, 200);
  assert.equal((await mounted.ask(newer)).status, 401);
  assert.equal(server.asked, 1);
  server.body = keySetOf(one, two);
  mounted.plugin.clock.advanceNow(10_000);
  assert.equal((await mounted.ask(newer)).status, 200);
  assert.equal(server.asked, 2);
});

test("jwt_auth drops cached tokens of a withdrawn key", async () => {
  await using server = await startKeyServer(keySetOf(one));
  await using mounted = await mountJwtAuth(configFor(server.uri));
  const before = { headers: bearer(await one.sign()) };
  assert.equal((await mounted.ask(before)).status, 200);
  server.body = keySetOf(two);
  mounted.plugin.clock.advanceNow(10_000);
  const unknown = await two.sign({}, { kid: "three" });
  assert.equal((await mounted.ask({ headers: bearer(unknown) })).status, 401);
  assert.equal((await mounted.ask(before)).status, 401);
  assert.equal((await mounted.ask({ headers: bearer(await two.sign()) })).status, 200);
});

const elsewhere = await startKeyServer(keySetOf(one));
after(() => elsewhere[Symbol.asyncDispose]());

for (
  const [what, change] of [
    ["redirects", { status: 302, location: elsewhere.uri }],
    ["is too long", { body: `${" ".repeat(262_144)}{"keys":[]}` }],
  ] as const
) {
  test(`jwt_auth uses no keys of an answer that ${what}`, async () => {
    await using server = await startKeyServer(keySetOf(one));
    Object.assign(server, change);
    await using mounted = await mountJwtAuth(configFor(server.uri));
    const { reason } = await mounted.ask({ headers: bearer(await one.sign()) });
    assert.equal(reason, "Jwks remote fetch is failed");
    assert.equal(mounted.plugin.stat("key_fetches", { result: "done" }), 0);
  });
}
