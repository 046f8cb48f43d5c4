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
import circuitBreaker from "./circuit_breaker.ts";

const config = { consecutiveFailures: 2, openMs: 1_000 };

for (
  const [what, step, opens] of [
    ["a 500", status(500), true],
    ["a broken connection", reset(), true],
    ["a refused connection", unreachable(), true],
    ["gRPC's UNAVAILABLE", status(200, { "grpc-status": "14" }), true],
    ["gRPC's NOT_FOUND", status(200, { "grpc-status": "5" }), false],
    ["a 404", status(404), false],
    ["a 429", status(429), false],
    ["a 200", ok("fine"), false],
  ] as readonly (readonly [string, Step, boolean])[]
) {
  test(`circuit_breaker ${opens ? "opens" : "stays closed"} after ${what}`, async () => {
    await using it = await mount(circuitBreaker, { config, upstream: [step] });
    for (let i = 0; i < 2; i++) await it.request();
    const { status: code, failure, headers } = await it.request();
    assert.equal(failure?.code === "limit_reached", opens);
    if (!opens) return;
    assert.deepEqual([code, failure?.reason], [503, "the circuit of db is open"]);
    const shown = ["x-postern-circuit", "retry-after"].map((name) => headers.get(name));
    assert.deepEqual(shown, ["open", "1"]);
  });
}

test("circuit_breaker admits one probe after the time, and all requests after its success", async () => {
  const held = hold();
  await using it = await mount(circuitBreaker, {
    config,
    upstream: [status(500), status(500), held],
  });
  const codes = async (count: number) => {
    const all = Array.from({ length: count }, () => it.request());
    return (await Promise.all(all)).map(({ status }) => status);
  };
  assert.deepEqual(await codes(2), [500, 500]);
  assert.deepEqual([it.stat("opened"), it.stat("open")], [1, 1]);
  await it.clock.advance(999);
  assert.deepEqual(await codes(1), [503]);
  await it.clock.advance(1);
  const probe = it.request();
  await settle();
  assert.deepEqual(await codes(3), [503, 503, 503]);
  assert.equal(it.upstream.requests.length, 3);
  held.answer(ok("well"));
  assert.equal((await probe).body, "well");
  assert.deepEqual([it.stat("refused"), it.stat("open")], [4, 0]);
  const next = it.request();
  await settle();
  held.answer(ok());
  assert.equal((await next).status, 200);
  assert.deepEqual(it.logs.map(({ message }) => message), [
    "the circuit of db is open: 2 failures in a row",
    "the circuit of db is closed again",
  ]);
});

test("circuit_breaker does not count callers that leave, and a probe that leaves frees its place", async () => {
  await using it = await mount(circuitBreaker, {
    config,
    upstream: [hold(), hold(), status(500), status(500), hold(), ok()],
  });
  const leave = async () => {
    const leaving = new AbortController();
    const pending = it.request({ signal: leaving.signal });
    await settle();
    leaving.abort();
    await pending;
  };
  for (let i = 0; i < 2; i++) await leave();
  for (let i = 0; i < 2; i++) assert.equal((await it.request()).status, 500);
  await it.clock.advance(1_000);
  await leave();
  assert.equal((await it.request()).status, 200);
});

for (
  const [config, reason] of [
    [{ consecutiveFailures: 0, failurePercent: 0 }, /no circuit ever opens/],
    [{ consecutiveFailures: -1 }, /config\.consecutiveFailures/],
    [{ failurePercent: 101 }, /config\.failurePercent/],
    [{ probes: 0 }, /config\.probes/],
    [{ openMs: 1 }, /config\.openMs/],
    [{ open: 1 }, /config\.open/],
  ] as const
) {
  test(`circuit_breaker refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(mount(circuitBreaker, { config }), reason);
  });
}
