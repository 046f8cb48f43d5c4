import assert from "node:assert/strict";
import { test } from "node:test";
import {
  hold,
  mount,
  ok,
  reset,
  settle,
  status,
  type Step,
  unreachable,
} from "../../src/kit/mod.ts";
import { sleep } from "../../src/base/mod.ts";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { UsedUp } from "./budget.ts";
import retry from "./retry.ts";

/** Attempts, at most two, by the result of the first attempt and the configuration. */
const FIRST: Readonly<
  Record<string, readonly [step: Step, ...configs: (readonly [unknown, number])[]]>
> = {
  "200": [ok("fine"), [{ retryOn: ["5xx", "reset", "retriable-4xx"] }, 1]],
  "500": [
    status(500),
    [{ retryOn: ["5xx"] }, 2],
    [{ retryOn: ["gateway-error", "reset", "connect-failure"] }, 1],
    [{ retryOnStatusCodes: [500] }, 2],
    [{ numRetries: 1 }, 1],
  ],
  "503": [status(503, {}, "no"), [{ retryOn: ["gateway-error"] }, 2], [{ retryOn: ["reset"] }, 1]],
  "404": [status(404), [{ retryOn: ["5xx", "retriable-4xx"] }, 1], [
    { retryOnStatusCodes: [404] },
    2,
  ]],
  "409": [status(409), [{ retryOn: ["retriable-4xx"] }, 2], [{ retryOn: ["5xx"] }, 1]],
  "a limit's 503": [
    status(503, { "x-envoy-ratelimited": "true" }),
    [{ retryOn: ["5xx", "gateway-error"] }, 1],
    [{ retryOn: ["envoy-ratelimited"] }, 2],
  ],
  "gRPC unavailable": [
    status(200, { "grpc-status": "14" }),
    [{ retryOn: ["unavailable"] }, 2],
    [{ retryOn: ["cancelled", "deadline-exceeded", "internal", "resource-exhausted"] }, 1],
    [{ retryOn: ["5xx"] }, 1],
  ],
  "gRPC cancelled": [status(200, { "grpc-status": "1" }), [{ retryOn: ["cancelled"] }, 2]],
  "gRPC deadline": [status(200, { "grpc-status": "4" }), [{ retryOn: ["deadline-exceeded"] }, 2]],
  "gRPC exhausted": [status(200, { "grpc-status": "8" }), [{ retryOn: ["resource-exhausted"] }, 2]],
  "gRPC internal": [status(200, { "grpc-status": "13" }), [{ retryOn: ["internal"] }, 2]],
  "a broken connection": [
    reset(),
    [{ retryOn: ["5xx"] }, 2],
    [{ retryOn: ["gateway-error"] }, 2],
    [{ retryOn: ["reset"] }, 2],
    [{ retryOn: ["connect-failure", "refused-stream"] }, 1],
    [{ numRetries: 1 }, 1],
  ],
  // An attempt that did not connect does not count as sent.
  "no connection": [
    unreachable(),
    [{ numRetries: 1 }, 1],
    [{ retryOnConnectFailure: true }, 1],
    [{ retryOn: ["5xx"] }, 1],
    [{ retryOn: ["retriable-4xx"] }, 0],
  ],
};

for (const [what, [step, ...rows]] of Object.entries(FIRST)) {
  for (const [config, times] of rows) {
    test(`retry after ${what} with ${JSON.stringify(config)}: ${times} sent`, async () => {
      await using plugin = await mount(retry, {
        config,
        upstream: [step, ok("again")],
        random: () => 0,
      });
      const answer = plugin.request();
      await settle();
      await plugin.clock.advance(1);
      await answer;
      assert.equal(plugin.upstream.requests.length, times);
    });
  }
}

test("retry uses the policy of the route instead of the listener's; without one it does nothing", async () => {
  for (
    const [config, routeConfig, times] of [
      [{}, undefined, 1],
      [{}, { retryOn: ["5xx"] }, 2],
      [{ retryOn: ["5xx"] }, { numRetries: 0 }, 1],
      [{ retryOn: ["5xx"] }, {}, 1],
    ]
  ) {
    await using plugin = await mount(retry, {
      config,
      routeConfig,
      random: () => 0,
      upstream: [status(500), ok()],
    });
    await Promise.all([plugin.request(), settle().then(() => plugin.clock.advance(1))]);
    assert.equal(plugin.upstream.requests.length, times);
  }
});

test("retry doubles its pauses up to the maximum, and returns the last response", async () => {
  await using plugin = await mount(retry, {
    config: { numRetries: 6, retryOn: ["5xx"] },
    upstream: [status(500, {}, "no")],
    random: () => 0.999,
  });
  const answer = plugin.request();
  await settle();
  const times = () => plugin.upstream.requests.length;
  for (const pauseMs of [25, 50, 100, 200, 250, 250]) {
    const before = times();
    await plugin.clock.advance(pauseMs - 2);
    assert.equal(times(), before, `${pauseMs}`);
    await plugin.clock.advance(2);
    assert.equal(times(), before + 1, `${pauseMs}`);
  }
  assert.deepEqual([(await answer).status, (await answer).body], [500, "no"]);
  assert.equal(plugin.stat("upstream_rq_retry"), 6);
  assert.equal(plugin.stat("upstream_rq_retry_limit_exceeded"), 1);
  assert.equal(plugin.stat("upstream_rq_retry_success"), 0);
});

for (
  const [what, body, limit, sent] of [
    ["of known length", "abcdef", 6, ["abcdef", "abcdef"]],
    ["of many chunks", ["ab", "cd", "ef"], 6, ["abcdef", "abcdef"]],
    ["over the limit", ["ab", "cd", "ef"], 5, ["abcdef"]],
  ] as const
) {
  test(`retry sends a body ${what} ${sent.length} times`, async () => {
    await using plugin = await mount(retry, {
      config: { retryOn: ["5xx"], replayLimitBytes: limit },
      upstream: [status(503), ok()],
      random: () => 0,
    });
    const answer = plugin.request({ method: "POST", body });
    await settle();
    await plugin.clock.advance(1);
    await answer;
    assert.deepEqual(plugin.upstream.requests.map((seen) => seen.body), sent);
    assert.equal(plugin.stat("retry_or_shadow_abandoned"), 2 - sent.length);
  });
}

test("retry ends an attempt at the per-try timeout, which begins when the request is complete", async () => {
  const slow = hold();
  await using plugin = await mount(retry, {
    config: { retryOn: ["reset"], perTryTimeoutMs: 500 },
    upstream: [slow, ok("fast")],
    random: () => 0,
  });
  const answer = plugin.request({ method: "POST", body: "abc" });
  await settle();
  await plugin.clock.advance(490);
  assert.equal(plugin.upstream.requests.length, 1);
  await plugin.clock.advance(120);
  assert.equal((await answer).body, "fast");
  assert.equal(plugin.upstream.requests[0]?.isGivenUp, true);
  assert.equal(plugin.stat("upstream_rq_per_try_timeout"), 1);
  assert.equal(plugin.stat("upstream_rq_retry_success"), 1);
});

test("retry answers 504 if each attempt exceeds the per-try timeout", async () => {
  await using plugin = await mount(retry, {
    config: { retryOn: ["reset"], perTryTimeoutMs: 500 },
    upstream: [hold()],
    random: () => 0,
  });
  const answer = plugin.request();
  await settle();
  for (let i = 0; i < 3; i++) await plugin.clock.advance(600);
  assert.deepEqual(
    [(await answer).status, (await answer).failure?.code, plugin.upstream.requests.length],
    [504, "response_timed_out", 2],
  );
});

test("retry has a budget of at least three, and regains it as retries end", async () => {
  const slow = hold();
  await using plugin = await mount(retry, {
    config: { retryOn: ["5xx"] },
    upstream: [...Array.from({ length: 5 }, () => status(503)), slow],
    random: () => 0,
  });
  const leave = new AbortController();
  const answers = Array.from({ length: 5 }, () => plugin.request({ signal: leave.signal }));
  await settle();
  await plugin.clock.advance(1);
  assert.equal(plugin.upstream.requests.length, 8);
  assert.equal(plugin.stat("upstream_rq_retry_overflow"), 2);
  // Requests of callers that leave free their part of the budget.
  leave.abort();
  await Promise.all(answers);
  slow.answer(ok());
  const more = plugin.request();
  await settle();
  slow.answer(status(503));
  await settle();
  await plugin.clock.advance(1);
  slow.answer(ok());
  assert.equal((await more).status, 200);
  assert.equal(plugin.upstream.requests.length, 10);
});

test("retry budget is a share of the active requests", async () => {
  const slow = hold();
  await using plugin = await mount(retry, {
    config: { retryOn: ["5xx"], budget: { percent: 50, minimum: 0 } },
    upstream: [slow],
    random: () => 0,
  });
  const answers = Array.from({ length: 8 }, () => plugin.request());
  await settle();
  slow.answer(status(503));
  await settle();
  await plugin.clock.advance(1);
  assert.equal(plugin.stat("upstream_rq_retry"), 4);
  assert.equal(plugin.stat("upstream_rq_retry_overflow"), 4);
  slow.answer(ok());
  await Promise.all(answers);
});

test("retry does not replay a request whose caller left during the pause", async () => {
  await using plugin = await mount(retry, {
    config: { retryOn: ["5xx"] },
    upstream: [status(503)],
  });
  const leave = new AbortController();
  const answer = plugin.request({ signal: leave.signal });
  await settle();
  leave.abort();
  await answer;
  await plugin.clock.advance(1_000);
  assert.equal(plugin.upstream.requests.length, 1);
  assert.equal(plugin.stat("upstream_rq_retry"), 0);
});

for (
  const [what, config, reason] of [
    ["an unknown condition", { retryOn: ["sometimes"] }, /config\.retryOn\[0\]: /],
    ["a negative count", { numRetries: -1 }, /config\.numRetries: /],
    ["an invalid status", { retryOnStatusCodes: [42] }, /config\.retryOnStatusCodes\[0\]: /],
    ["an unknown key", { retries: 1 }, /config\.retries: /],
  ] as const
) {
  test(`retry refuses ${what}`, async () => {
    await assert.rejects(mount(retry, { config }), reason);
    await assert.rejects(mount(retry, { routeConfig: config }), /routes\[0\]\.retry/);
  });
}

test("retry reports while its budget refuses retries, and then how many", async () => {
  const clock = new FakeClock();
  const closing = new AbortController();
  const told: string[] = [];
  const usedUp = new UsedUp({
    clock: {
      now: () => clock.monotonic(),
      wall: () => clock.now(),
      sleep: (ms, signal) => sleep(clock, ms, signal ? { signal } : {}),
    },
    signal: closing.signal,
    listener: "api",
    condition({ text }) {
      told.push(text);
      return (ended, refused) => void told.push(`${ended}, ${refused}`);
    },
  });
  for (let second = 0; second < 30; second++) {
    usedUp.refused();
    await clock.advance(1_000);
  }
  assert.deepEqual(told.splice(0), ["retries of api are refused: the retry budget is used up"]);
  await clock.advance(20_000);
  assert.deepEqual(told.splice(0), ["retries of api are allowed again, 30"]);
  usedUp.refused();
  closing.abort();
  assert.equal(told.at(1), "retries of api are allowed again, 1");
  await settle();
  assert.equal(clock.pending, 0);
});
