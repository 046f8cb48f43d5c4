import assert from "node:assert/strict";
import { test } from "node:test";
import { hold, mount, ok, settle } from "../../src/kit/mod.ts";
import timeout from "./timeout.ts";

for (
  const [what, config, routeConfig, isLate] of [
    ["of the listener", { requestTimeoutMs: 500 }, undefined, true],
    ["that is longer", { requestTimeoutMs: 5_000 }, undefined, false],
    ["without a configuration", {}, undefined, false],
    ["of a route alone", {}, { requestTimeoutMs: 500 }, true],
    ["that a route extends", { requestTimeoutMs: 500 }, { requestTimeoutMs: 5_000 }, false],
    ["that a route removes", { requestTimeoutMs: 500 }, { requestTimeoutMs: 0 }, false],
    ["that a route does not change", { requestTimeoutMs: 500 }, { idleTimeoutMs: 1 }, true],
  ] as const
) {
  test(`timeout ${what} ${isLate ? "ends a late exchange" : "waits"}`, async () => {
    const slow = hold();
    await using plugin = await mount(timeout, { config, routeConfig, upstream: [slow] });
    const answer = plugin.request({ method: "POST", body: "abc" });
    await settle();
    await plugin.clock.advance(400);
    assert.equal(plugin.upstream.requests[0]?.isGivenUp, false);
    await plugin.clock.advance(300);
    assert.equal(plugin.upstream.requests[0]?.isGivenUp, isLate);
    slow.answer(ok("done"));
    const { status, failure } = await answer;
    assert.deepEqual(
      [status, failure?.code],
      isLate ? [504, "response_timed_out"] : [200, undefined],
    );
  });
}

for (const config of [{ requestTimeoutMs: -1 }, { requestTimeout: 1 }, { idleTimeoutMs: "1s" }]) {
  test(`timeout refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(mount(timeout, { config }), /plugins\[0\]\.config\./);
  });
}
