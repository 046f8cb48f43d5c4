import assert from "node:assert/strict";
import test from "node:test";
import { ProxyError } from "../../../base/mod.ts";
import { FollowedLeaf, ScriptedSigner } from "../../../../test/kit/consul/scripted_signer.ts";

const HOUR_MS = 3_600_000;

test("a leaf is requested as soon as the roots are known", async () => {
  const signer = new ScriptedSigner();
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  assert.equal(followed.leaves.length, 1);
  assert.match(followed.leaves[0]?.uri ?? "", /\/ns\/default\/dc\/dc1\/svc\/web$/);
  assert.equal(followed.handle.state.name, "leaf web");
  followed.handle.stop();
  assert.equal(signer.clock.pending, 0);
});

for (const [chance, hours] of [[0, 50], [0.5, 57.5], [1, 65]] as const) {
  test(`a leaf is renewed with another key at ${hours} of 100 hours for the random number ${chance}`, async () => {
    const signer = new ScriptedSigner();
    signer.ttlMs = 100 * HOUR_MS;
    const followed = new FollowedLeaf(signer, () => chance);
    // Its life began a minute before it was signed.
    await signer.clock.advance(hours * HOUR_MS - 60_000 - 1);
    assert.equal(followed.leaves.length, 1);
    await signer.clock.advance(1);
    assert.equal(followed.leaves.length, 2);
    const [before, after] = followed.leaves;
    assert.notEqual(before?.keyPem, after?.keyPem);
    followed.handle.stop();
  });
}

test("a leaf of two years is renewed in time although timers end at 24 days", async () => {
  const signer = new ScriptedSigner();
  signer.ttlMs = 2 * 365 * 24 * HOUR_MS;
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(1.1 * 365 * 24 * HOUR_MS);
  assert.equal(followed.leaves.length, 1);
  await signer.clock.advance(0.2 * 365 * 24 * HOUR_MS);
  assert.equal(followed.leaves.length, 2);
  followed.handle.stop();
});

test("a wall clock that is set forward past the renewal is noticed within ten minutes", async () => {
  const signer = new ScriptedSigner();
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  signer.clock.jump(60 * HOUR_MS);
  await signer.clock.advance(600_000);
  assert.equal(followed.leaves.length, 2);
  followed.handle.stop();
});

test("another active root causes a new leaf after five seconds, not at once", async () => {
  const signer = new ScriptedSigner();
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  signer.rotate();
  await signer.clock.advance(4_999);
  assert.equal(followed.leaves.length, 1);
  await signer.clock.advance(1);
  assert.equal(followed.leaves.length, 2);
  signer.listed = [signer.authority];
  signer.tellRoots();
  await signer.clock.advance(60_000);
  assert.equal(followed.leaves.length, 2, "the removal of the old root causes no new leaf");
  assert.deepEqual(followed.errors, []);
  followed.handle.stop();
});

test("a leaf whose root goes while the active one stays is replaced at once", async () => {
  const signer = new ScriptedSigner();
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  const [before] = signer.listed;
  // The next certificates are signed by a root that is not the active one.
  signer.rotate();
  const active = signer.authority;
  if (before) signer.authority = before;
  await signer.clock.advance(10_000);
  assert.equal(followed.leaves.length, 2);
  signer.authority = active;
  signer.listed = [active];
  signer.tellRoots();
  await signer.clock.advance(0);
  assert.equal(followed.leaves.length, 3);
  followed.handle.stop();
});

test("a clock far ahead of the servers' does not cause endless requests", async () => {
  const signer = new ScriptedSigner();
  // By this clock nine tenths of each leaf's life have passed when it arrives.
  signer.aheadMs = 65 * HOUR_MS;
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(HOUR_MS);
  assert.equal(signer.asked.length, 1);
  await signer.clock.advance(6 * HOUR_MS);
  const asked = signer.asked.length;
  assert.ok(asked >= 3 && asked <= 6, `${asked} times`);
  assert.deepEqual(followed.errors, []);
  followed.handle.stop();
});

test("a clock that was set back before the leaf is named in an error, until it is right again", async () => {
  const signer = new ScriptedSigner();
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  signer.clock.jump(-HOUR_MS);
  signer.aheadMs = -HOUR_MS;
  await signer.clock.advance(600_000);
  assert.equal(followed.leaves.length, 1);
  assert.match(followed.errors[0] ?? "", /is not valid before .* is this clock right\?/);
  signer.clock.jump(HOUR_MS);
  signer.aheadMs = 0;
  await signer.clock.advance(60_000);
  assert.equal(followed.leaves.length, 2);
  followed.handle.stop();
});

test("a leaf whose root is not listed any more is replaced at once", async () => {
  const signer = new ScriptedSigner();
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  signer.rotate({ prune: true });
  await signer.clock.advance(1_000);
  assert.equal(followed.leaves.length, 2);
  followed.handle.stop();
});

test("a leaf is judged by the roots at its arrival", async () => {
  const signer = new ScriptedSigner();
  const { promise, resolve } = Promise.withResolvers<void>();
  signer.before = () => promise;
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  signer.rotate({ prune: true });
  await signer.clock.advance(5_000);
  assert.equal(signer.asked.length, 1, "one request at a time");
  signer.before = () => Promise.resolve();
  resolve();
  await signer.clock.advance(10_000);
  // The active root signed it, so no other request follows.
  const last = followed.leaves.at(-1);
  assert.ok(last);
  assert.deepEqual(followed.errors, []);
  assert.ok(signer.asked.length <= 2);
  followed.handle.stop();
});

test("a leaf whose root stopped being the active one during the request is replaced", async () => {
  const signer = new ScriptedSigner();
  const { promise, resolve } = Promise.withResolvers<void>();
  signer.before = () => promise;
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  const before = signer.authority;
  signer.rotate();
  const active = signer.authority;
  signer.authority = before;
  resolve();
  await signer.clock.advance(0);
  assert.equal(followed.leaves.length, 1);
  signer.authority = active;
  await signer.clock.advance(10_000);
  assert.equal(followed.leaves.length, 2);
  followed.handle.stop();
});

for (const code of ["agent_overloaded", "agent_unreachable", "agent_forbidden"] as const) {
  test(`a request that fails with ${code} is retried, and the leaf in use stays`, async () => {
    const signer = new ScriptedSigner();
    const followed = new FollowedLeaf(signer);
    await signer.clock.advance(0);
    signer.before = () => Promise.reject(new ProxyError(code, "no"));
    signer.rotate();
    await signer.clock.advance(60_000);
    const tries = signer.asked.length - 1;
    assert.ok(tries >= 4 && tries <= 10, `${tries} tries in a minute`);
    assert.equal(new Set(signer.asked.slice(1)).size, 1, "the same request");
    assert.equal(followed.leaves.length, 1);
    assert.equal(followed.errors.length, tries);
    assert.ok(followed.errors.every((text) => text.startsWith(code)));
    assert.equal(followed.errors[0]?.includes("service:write"), code === "agent_forbidden");
    assert.equal(followed.handle.state.failures, tries);
    signer.before = () => Promise.resolve();
    await signer.clock.advance(60_000);
    assert.equal(followed.leaves.length, 2);
    followed.handle.stop();
  });
}

test("an expiring leaf is requested every few seconds while servers fail", async () => {
  const signer = new ScriptedSigner();
  signer.ttlMs = HOUR_MS;
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  signer.before = () => Promise.reject(new ProxyError("agent_unreachable", "no"));
  await signer.clock.advance(HOUR_MS);
  const before = signer.asked.length;
  await signer.clock.advance(60_000);
  const tries = signer.asked.length - before;
  assert.ok(tries >= 20 && tries <= 30, `${tries} tries in a minute`);
  followed.handle.stop();
});

test("a forbidden request names the missing right", async () => {
  const signer = new ScriptedSigner();
  signer.before = () => Promise.reject(new ProxyError("agent_forbidden", "Permission denied"));
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  assert.match(followed.errors[0] ?? "", /Permission denied .*"web" takes service:write/);
  followed.handle.stop();
});

test("a wrong certificate is refused, and the leaf in use stays", async () => {
  const signer = new ScriptedSigner();
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  signer.overrides = { dnsNames: ["db"] };
  signer.rotate();
  await signer.clock.advance(20_000);
  assert.equal(followed.leaves.length, 1);
  assert.match(followed.errors[0] ?? "", /^agent_reply_invalid: .*names that were not asked for/);
  signer.overrides = {};
  await signer.clock.advance(60_000);
  assert.equal(followed.leaves.length, 2);
  followed.handle.stop();
});

test("leaves of two seconds are requested once a second at most", async () => {
  const signer = new ScriptedSigner();
  // A minute of the life has passed at the signing.
  signer.ttlMs = 62_000;
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(60_000);
  assert.ok(signer.asked.length >= 30 && signer.asked.length <= 61, `${signer.asked.length} times`);
  followed.handle.stop();
});

test("changing roots do not postpone requests, and cause at most one a second", async () => {
  const signer = new ScriptedSigner();
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  for (let turn = 0; turn < 40; turn++) {
    signer.rotate();
    await signer.clock.advance(500);
  }
  // With this random number each request waits for five seconds.
  assert.ok(followed.leaves.length >= 4, `${followed.leaves.length} leaves in 20 s`);

  signer.before = () => Promise.reject(new ProxyError("agent_overloaded", "no"));
  const before = signer.asked.length;
  for (let turn = 0; turn < 100; turn++) {
    signer.rotate({ prune: true });
    await signer.clock.advance(50);
  }
  assert.ok(signer.asked.length - before <= 8, `${signer.asked.length - before} times in 5 s`);
  followed.handle.stop();
});

test("stop() during a request delivers nothing", async () => {
  const signer = new ScriptedSigner();
  const { promise, resolve } = Promise.withResolvers<void>();
  signer.before = () => promise;
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  assert.equal(signer.asked.length, 1);
  followed.handle.stop();
  resolve();
  await signer.clock.advance(HOUR_MS);
  assert.deepEqual([followed.leaves, followed.errors], [[], []]);
  assert.equal(followed.handle.state.failures, 0);
  assert.equal(signer.clock.pending, 0);
});

for (const [event, fails] of [["a leaf", false], ["an error", true]] as const) {
  test(`a watch that its sink stops at ${event} leaves no timer and no stream`, async () => {
    const signer = new ScriptedSigner();
    if (fails) signer.before = () => Promise.reject(new ProxyError("agent_unreachable", "no"));
    const followed = new FollowedLeaf(signer);
    followed.onDelivery = () => followed.handle.stop();
    await signer.clock.advance(0);
    assert.equal(followed.leaves.length + followed.errors.length, 1);
    assert.deepEqual([signer.clock.pending, signer.streams], [0, 0]);
  });
}

/** Consul's rate limit: a number of signatures a second, and a wait of half a second at most. */
class Pace {
  readonly #signer: ScriptedSigner;
  readonly #gapMs: number;
  #nextMs = 0;
  refused = 0;

  constructor(signer: ScriptedSigner, perSecond: number) {
    this.#signer = signer;
    this.#gapMs = 1_000 / perSecond;
    signer.before = () => this.#turn();
  }

  #turn(): Promise<void> {
    const { clock } = this.#signer;
    const atMs = Math.max(clock.monotonic(), this.#nextMs);
    if (atMs - clock.monotonic() > 500) {
      this.refused++;
      return Promise.reject(new ProxyError("agent_overloaded", "Rate limit reached"));
    }
    this.#nextMs = atMs + this.#gapMs;
    return new Promise((resolve) => clock.after(atMs - clock.monotonic(), resolve));
  }
}

test("two hundred proxies that start together have their leaf within twelve seconds", async () => {
  const signer = new ScriptedSigner();
  const { certPem } = await certificateOf(signer);
  // The same certificate serves for all, because a thousand signatures take seconds.
  signer.sign = () => certPem;
  const pace = new Pace(signer, 50);
  let seed = 1;
  const random = () => (seed = seed * 16_807 % 2_147_483_647) / 2_147_483_647;
  const fleet = Array.from({ length: 200 }, () => new FollowedLeaf(signer, random));
  let took = 0;
  let waiting = fleet;
  while (waiting.length > 0 && took < 120) {
    await signer.clock.advance(1_000);
    took++;
    waiting = waiting.filter(({ errors, handle }) => {
      // The certificate is for another key; only the answer counts here.
      const isSigned = errors.at(-1)?.startsWith("agent_reply");
      if (isSigned) handle.stop();
      return !isSigned;
    });
  }
  assert.ok(took <= 12, `${took} s, ${pace.refused} refused`);
  assert.ok(pace.refused < 200 * 5, `${pace.refused} refused`);
});

async function certificateOf(signer: ScriptedSigner): Promise<{ readonly certPem: string }> {
  const followed = new FollowedLeaf(signer);
  await signer.clock.advance(0);
  followed.handle.stop();
  const [leaf] = followed.leaves;
  if (!leaf) return assert.fail("no leaf");
  return leaf;
}
