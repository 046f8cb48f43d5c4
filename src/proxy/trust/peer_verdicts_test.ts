import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { PeerVerdicts } from "./peer_verdicts.ts";
import type { TrustContext } from "./trust_context.ts";

test("Presentation is verified for the time of the handshake, and later gives its age", async () => {
  const clock = new FakeClock({ startMs: 1_000_000 });
  await clock.advance(500);
  const calls: unknown[] = [];
  const trust = { verify: (_peer: unknown, at: unknown) => void calls.push(at) };
  const presentation = new PeerVerdicts(presented(undefined), "client", clock);
  await clock.advance(3_000);
  clock.jump(-60_000);
  presentation.judge(trust as unknown as TrustContext);
  presentation.judgeAgain(trust as unknown as TrustContext);
  const at = { usage: "client", nowMs: 1_000_500 };
  assert.deepEqual(calls, [at, { ...at, sinceMs: 3_000 }]);
});
