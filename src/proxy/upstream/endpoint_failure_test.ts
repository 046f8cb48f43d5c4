import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import { memoryPair } from "../../../test/kit/engine/memory_pair.ts";
import { Relay, type RelayEnd } from "../../net/mod.ts";
import { isRefusal, refusalEnding } from "./endpoint_failure.ts";

/** Whether a connection with the events of `script`, in order, counts as refused. */
async function refused(script: readonly string[]): Promise<boolean> {
  const [client, downstream] = memoryPair();
  const [upstream, server] = memoryPair();
  const ticker = { tick: 0 };
  const over: RelayEnd[] = [];
  const relay = new Relay(downstream, upstream, { ticker, onOver: (end) => over.push(end) });
  for (const step of script) {
    const [who, what] = step.split(" ");
    const side = who === "server" ? server : client;
    if (who === "later") ticker.tick += 2;
    else if (what === "speaks") side.write(new TextEncoder().encode("x"));
    else if (what === "ends") side.end();
    else side.reset();
    await settle();
  }
  client.end();
  server.end();
  await settle();
  const [end] = over;
  assert.ok(end);
  return isRefusal(relay, end);
}

for (
  const [script, wanted] of [
    [["server ends"], true],
    [["server breaks"], true],
    [["client speaks", "server ends"], true],
    [["client speaks", "server breaks"], true],
    // Envoy judges at the first byte.
    [["later", "client speaks", "server ends"], true],
    [["server ends", "later", "client ends"], true],
    [["server ends", "client breaks"], true],
    [["later", "server ends"], false],
    [["client speaks", "later", "server ends"], false],
    [["client speaks", "later", "server breaks"], false],
    [["client ends", "server ends"], false],
    [["client ends", "server breaks"], false],
    [["client breaks"], false],
    [["server speaks", "server ends"], false],
    [["client speaks", "server speaks", "server breaks"], false],
  ] as const
) {
  test(`isRefusal() is ${wanted} where ${script.join(", ")}`, async () => {
    assert.equal(await refused(script), wanted);
  });
}

test("isRefusal() is true for an alert, even after the caller ended its half", () => {
  const relay = { sentBytes: 0, firstTick: 0, endTick: 9 } as Relay;
  const end = { kind: "reset", by: "upstream", first: "downstream" } as const;
  assert.equal(isRefusal(relay, { ...end, alert: "it minds" }), true);
  assert.equal(isRefusal(relay, { ...end, alert: "" }), false);
});

test("refusalEnding() has the meaning of the peer's alert, and warns again after a minute", () => {
  const refusals = { warnedMs: -Infinity };
  const end = { kind: "reset", by: "upstream", first: "upstream", alert: "it minds" } as const;
  const quiet = [0, 59_999, 60_000].map((nowMs) => {
    const ending = refusalEnding(end, { refusals, nowMs, caller: "web" });
    assert.equal(ending.kind === "failed" && /nothing: it minds$/.test(ending.reason), true);
    return ending.kind === "failed" && ending.quiet;
  });
  assert.deepEqual(quiet, [false, true, false]);
});
