import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog, messageOf, ProxyError } from "../../../base/mod.ts";
import { FakeClock } from "../../../../test/kit/clock/clock.ts";
import type { Login } from "./login_calls.ts";
import { LoginToken } from "./login_token.ts";

const LIFE_MS = 60_000;

/** A token whose logins the test answers, with its logins, logouts and log lines. */
class Scene {
  readonly clock = new FakeClock();
  readonly logged: string[] = [];
  readonly asked: PromiseWithResolvers<Login>[] = [];
  readonly loggedOut: string[] = [];
  readonly token: LoginToken;
  changes = 0;
  /** The result of a logout; undefined: it succeeds at once. */
  logout: Promise<void> | undefined;

  constructor(random = 0) {
    const { clock } = this;
    const log = createLog({
      clock,
      holder: { level: "info" },
      write: ({ level, message, fields }) => {
        this.logged.push(`${level} ${message} ${JSON.stringify(fields)}`);
      },
    });
    this.token = new LoginToken("jwt", { clock, random: () => random, log });
    this.token.onChange(() => this.changes++);
  }

  start(): void {
    this.token.start({
      logIn: () => {
        const asked = Promise.withResolvers<Login>();
        this.asked.push(asked);
        return asked.promise;
      },
      logOut: (secret) => {
        this.loggedOut.push(secret);
        return this.logout ?? Promise.resolve();
      },
    });
  }

  /** Completes the last login with the token named after its number. */
  async give(lifeMs: number | undefined = LIFE_MS): Promise<string> {
    const secret = `secret-${this.asked.length}`;
    this.asked.at(-1)?.resolve({ secret, accessorId: `accessor-${this.asked.length}`, lifeMs });
    await this.clock.advance(0);
    return secret;
  }

  async refuse(error: Error = new ProxyError("agent_failed", "no")): Promise<void> {
    this.asked.at(-1)?.reject(error);
    await this.clock.advance(0);
  }
}

async function loggedIn(lifeMs?: number, random?: number): Promise<Scene> {
  const scene = new Scene(random);
  scene.start();
  await scene.give(lifeMs);
  return scene;
}

test("LoginToken.coming resolves with the first token", async () => {
  const scene = new Scene();
  const { coming } = scene.token;
  scene.start();
  assert.equal(scene.token.coming, coming, "start() keeps the promise");
  assert.equal(scene.token.current(), "");
  assert.equal(await scene.give(), "secret-1");
  await coming;
  assert.equal(scene.token.coming, undefined);
  assert.equal(scene.token.current(), "secret-1");
  assert.equal(scene.changes, 1);
});

test("LoginToken logs a refusal once for each reason, and retries with a growing pause", async () => {
  const scene = new Scene();
  scene.start();
  const waited: string[] = [];
  const delays: (number | undefined)[] = [];
  for (let round = 0; round < 7; round++) {
    const { coming } = scene.token;
    coming?.catch((error) => waited.push(messageOf(error)));
    await scene.refuse();
    delays.push(scene.clock.nextInMs);
    await assert.rejects(scene.token.coming ?? Promise.resolve(), { code: "agent_failed" });
    await scene.clock.advance(scene.clock.nextInMs ?? 0);
  }
  assert.deepEqual(delays, [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
  assert.deepEqual(waited, Array.from({ length: 7 }, () => "no"));
  assert.equal(scene.logged.length, 1);
  assert.deepEqual(scene.token.status.failures, 7);
  await scene.refuse(new ProxyError("agent_failed", "another reason"));
  assert.equal(scene.logged.length, 2);
  await scene.clock.advance(30_000);
  const { coming } = scene.token;
  await scene.give();
  await coming;
  assert.deepEqual([scene.token.status.failures, scene.token.status.lastFailure], [0, ""]);
});

for (
  const [code, wanted] of [
    ["agent_unreachable", "agent_unreachable"],
    ["agent_overloaded", "agent_overloaded"],
    // agent_forbidden would end a proxy that looks for its registration, and auth methods may be mended.
    ["agent_forbidden", "agent_failed"],
    // No server ever accepts such a login.
    ["config_invalid", "config_invalid"],
  ] as const
) {
  test(`LoginToken.coming rejects with ${wanted} where the login fails with ${code}`, async () => {
    const scene = new Scene();
    scene.start();
    await scene.refuse(new ProxyError(code, "no"));
    await assert.rejects(scene.token.coming ?? Promise.resolve(), { code: wanted, message: "no" });
  });
}

test("LoginToken.moved() retries a failed login at once, and does nothing otherwise", async () => {
  const scene = new Scene();
  scene.start();
  for (let round = 0; round < 6; round++) {
    await scene.refuse();
    if (round < 5) await scene.clock.advance(scene.clock.nextInMs ?? 0);
  }
  scene.token.moved();
  scene.token.moved();
  await scene.clock.advance(0);
  assert.equal(scene.asked.length, 7);
  scene.token.moved();
  await scene.clock.advance(0);
  assert.equal(scene.asked.length, 7, "a running login is not repeated");
  scene.token.moved();
  await scene.give();
  scene.token.moved();
  await scene.clock.advance(20_000);
  assert.equal(scene.asked.length, 7, "the planned retry is dropped");
});

test("LoginToken is renewed at 80 % of its life, and the old token is logged out 10 s later", async () => {
  const scene = await loggedIn();
  await scene.clock.advance(47_999);
  assert.equal(scene.asked.length, 1);
  await scene.clock.advance(1);
  assert.equal(scene.asked.length, 2);
  assert.equal(
    scene.token.current(),
    "secret-1",
    "the old token is used until the new one arrives",
  );
  assert.equal(await scene.give(), scene.token.current());
  assert.equal(scene.changes, 2);
  await scene.clock.advance(9_999);
  assert.deepEqual(scene.loggedOut, []);
  await scene.clock.advance(1);
  assert.deepEqual(scene.loggedOut, ["secret-1"]);
  await scene.clock.advance(38_000);
  assert.equal(scene.asked.length, 3, "the new token is renewed, too");
});

test("LoginToken is renewed up to 5 % sooner at random", async () => {
  const scene = await loggedIn(LIFE_MS, 1);
  await scene.clock.advance(44_999);
  assert.equal(scene.asked.length, 1);
  await scene.clock.advance(1);
  assert.equal(scene.asked.length, 2);
});

test("LoginToken is not logged out where a renewal returns the same token", async () => {
  const scene = await loggedIn();
  await scene.clock.advance(48_000);
  scene.asked[1]?.resolve({ secret: "secret-1", accessorId: "a", lifeMs: LIFE_MS });
  await scene.clock.advance(20_000);
  assert.deepEqual([scene.token.current(), scene.loggedOut], ["secret-1", []]);
});

test("LoginToken is used while its renewal hangs, fails and is retried", async () => {
  const scene = await loggedIn();
  await scene.clock.advance(55_000);
  assert.equal(scene.asked.length, 2, "one login at a time");
  await scene.refuse();
  assert.equal(scene.token.current(), "secret-1");
  assert.equal(scene.token.coming, undefined);
  await scene.clock.advance(1_000);
  await scene.give();
  assert.equal(scene.token.current(), "secret-3");
});

test("LoginToken without an expiry is not renewed", async () => {
  const scene = new Scene();
  scene.start();
  scene.asked[0]?.resolve({ secret: "s", accessorId: "a", lifeMs: undefined });
  await scene.clock.advance(90 * 86_400_000);
  assert.equal(scene.asked.length, 1);
  assert.equal(scene.clock.pending, 0);
});

test("LoginToken with a life beyond the longest timer is renewed when it is due", async () => {
  const scene = await loggedIn(100 * 86_400_000);
  await scene.clock.advance(80 * 86_400_000 - 1);
  assert.equal(scene.asked.length, 1);
  await scene.clock.advance(1);
  assert.equal(scene.asked.length, 2);
});

test("LoginToken with a very short life is renewed every five seconds at most", async () => {
  const scene = await loggedIn(1);
  await scene.clock.advance(4_999);
  assert.equal(scene.asked.length, 1);
  await scene.clock.advance(1);
  assert.equal(scene.asked.length, 2);
});

test("LoginToken is renewed within a minute after the machine has slept", async () => {
  const scene = await loggedIn(3_600_000);
  scene.clock.jump(3_000_000);
  await scene.clock.advance(60_000);
  assert.equal(scene.asked.length, 2);
});

test("LoginToken is renewed in time although the clock was set back", async () => {
  const scene = await loggedIn();
  scene.clock.jump(-3_600_000);
  await scene.clock.advance(48_000);
  assert.equal(scene.asked.length, 2);
});

test("LoginToken.rejected() logs in again", async () => {
  const scene = await loggedIn(undefined);
  await scene.clock.advance(5_000);
  scene.token.rejected("secret-1");
  scene.token.rejected("secret-1");
  assert.equal(scene.asked.length, 2);
  assert.equal(scene.logged.length, 2, "logged once");
  await scene.give();
  assert.equal(scene.token.current(), "secret-2");
  assert.equal(scene.changes, 2);
});

test("LoginToken.rejected() retries the login until it succeeds", async () => {
  const scene = await loggedIn(3_600_000);
  await scene.clock.advance(5_000);
  scene.token.rejected("secret-1");
  for (let round = 0; round < 20; round++) {
    assert.equal(scene.asked.length, 2 + round);
    await scene.refuse();
    await scene.clock.advance(15_000);
  }
});

test("LoginToken.rejected() ignores tokens other than the one in use", async () => {
  const scene = await loggedIn();
  await scene.clock.advance(48_000);
  await scene.give();
  await scene.clock.advance(5_000);
  for (const late of ["secret-1", "", "another"]) scene.token.rejected(late);
  assert.equal(scene.asked.length, 2);
});

test("LoginToken.rejected() ignores a rejection of a token younger than five seconds", async () => {
  const scene = await loggedIn();
  await scene.clock.advance(4_999);
  scene.token.rejected("secret-1");
  assert.equal(scene.asked.length, 1);
});

test("LoginToken.rejected() ignores rejections for longer after each token that was rejected early", async () => {
  const scene = await loggedIn(86_400_000);
  const waits: number[] = [];
  for (let round = 0; round < 6; round++) {
    const fromMs = scene.clock.monotonic();
    const asked = scene.asked.length;
    while (scene.asked.length === asked) {
      await scene.clock.advance(1_000);
      scene.token.rejected(scene.token.current());
    }
    waits.push(scene.clock.monotonic() - fromMs);
    await scene.give(86_400_000);
  }
  assert.deepEqual(waits, [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]);
  await scene.clock.advance(600_000);
  scene.token.rejected(scene.token.current());
  const secret = await scene.give();
  await scene.clock.advance(5_000);
  const asked = scene.asked.length;
  scene.token.rejected(secret);
  assert.equal(scene.asked.length, asked + 1, "a token that lasted resets the pause");
});

test("LoginToken.rejected() is believed after five seconds where the token came by a regular renewal", async () => {
  const scene = await loggedIn();
  for (let renewal = 0; renewal < 3; renewal++) {
    await scene.clock.advance(48_000);
    await scene.give();
  }
  await scene.clock.advance(5_000);
  scene.token.rejected(scene.token.current());
  assert.equal(scene.asked.length, 5);
});

test("LoginToken.rejected() does not shorten the pause between failed logins", async () => {
  const scene = await loggedIn();
  await scene.clock.advance(48_000);
  await scene.refuse();
  scene.token.rejected("secret-1");
  assert.equal(scene.asked.length, 2);
});

test("LoginToken.end() logs out every held token once", async () => {
  const scene = await loggedIn();
  await scene.clock.advance(48_000);
  await scene.give();
  await Promise.all([scene.token.end(), scene.token.end()]);
  assert.deepEqual(scene.loggedOut, ["secret-1", "secret-2"]);
  assert.equal(scene.clock.pending, 0);
  await scene.clock.advance(3_600_000);
  scene.token.rejected("secret-2");
  assert.equal(scene.asked.length, 2);
  assert.equal(scene.loggedOut.length, 2);
  assert.equal(scene.clock.pending, 0);
});

test("LoginToken.end() does not log out a replaced token a second time", async () => {
  const scene = await loggedIn();
  await scene.clock.advance(48_000);
  await scene.give();
  await scene.clock.advance(10_000);
  await scene.token.end();
  assert.deepEqual(scene.loggedOut, ["secret-1", "secret-2"]);
});

test("LoginToken.end() waits for a running login, and logs its token out", async () => {
  const scene = await loggedIn();
  await scene.clock.advance(48_000);
  let ended = false;
  const ending = scene.token.end().then(() => ended = true);
  await scene.clock.advance(1_000);
  assert.equal(ended, false);
  await scene.give();
  await ending;
  assert.deepEqual(scene.loggedOut.toSorted(), ["secret-1", "secret-2"]);
  assert.equal(scene.changes, 1, "its token is not announced");
});

test("LoginToken.end() resolves after 5 s although a logout hangs", async () => {
  const scene = await loggedIn();
  scene.logout = new Promise(() => {});
  let ended = false;
  void scene.token.end().then(() => ended = true);
  await scene.clock.advance(4_999);
  assert.equal(ended, false);
  await scene.clock.advance(1);
  assert.equal(ended, true);
});

test("LoginToken.end() logs nothing out while logins fail", async () => {
  const scene = new Scene();
  scene.start();
  await scene.refuse();
  await scene.clock.advance(500);
  const ending = scene.token.end();
  await scene.refuse(new ProxyError("closed", "not wanted any more"));
  await ending;
  scene.token.moved();
  await scene.clock.advance(60_000);
  assert.deepEqual([scene.asked.length, scene.loggedOut.length], [2, 0]);
  assert.equal(scene.logged.length, 1, "no login follows");
});

test("LoginToken.status and log lines have accessor and expiry, never the token", async () => {
  const scene = await loggedIn();
  const lastLoginMs = scene.clock.now();
  await scene.clock.advance(48_000);
  await scene.refuse();
  assert.deepEqual(scene.token.status, {
    authMethod: "jwt",
    accessorId: "accessor-1",
    lastLoginMs,
    expiresMs: lastLoginMs + 60_000,
    failures: 1,
    lastFailure: "no",
  });
  await scene.clock.advance(500);
  await scene.give();
  scene.logout = Promise.reject(new ProxyError("agent_unreachable", "connection refused"));
  await scene.token.end();
  assert.deepEqual(scene.logged.map((line) => line.replace(/ \{.*/, "")), [
    "info logged in to consul",
    "warn not logged in to consul; trying again",
    "info logged in to consul",
    "warn not logged out of consul, the token stays until it expires",
    "warn not logged out of consul, the token stays until it expires",
  ]);
  assert.match(scene.logged[0] ?? "", /"expires_in_ms":60000/);
  assert.doesNotMatch(scene.logged.join("\n"), /secret/);
});
