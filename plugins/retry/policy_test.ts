import assert from "node:assert/strict";
import { test } from "node:test";
import type { HttpResponse } from "../../src/plugin/api.ts";
import { asksForAnother, policyOf, type RetryCondition } from "./policy.ts";

const ALL: readonly RetryCondition[] = ["5xx", "gateway-error", "reset", "connect-failure"];
const REFUSED: readonly RetryCondition[] = ["refused-stream"];

for (
  const [code, wasSent, retryOn, wanted] of [
    // A retry would add to the load that a limit bounds.
    ["limit_reached", false, ALL, false],
    ["rate_limited", false, ALL, false],
    ["no_endpoint", false, ALL, false],
    ["not_ready", false, ALL, false],
    ["plugin_failed", false, ALL, false],
    ["endpoint_untrusted", false, ["connect-failure"], true],
    ["local_refused", false, ["connect-failure"], true],
    ["response_invalid", true, ["reset"], true],
    ["response_reset", false, REFUSED, true],
    ["response_reset", true, REFUSED, false],
    ["endpoint_reset", true, REFUSED, false],
  ] as const
) {
  test(`asksForAnother() ${wasSent ? "sent" : "unsent"} ${code}, ${retryOn}: ${wanted}`, () => {
    const failure = { code, reason: "", wasSent, endpoint: null };
    const response = { status: 503, failure, endpoint: null } as unknown as HttpResponse;
    const policy = policyOf({ retryOn: [...retryOn] });
    assert.equal(policy && asksForAnother(policy, response), wanted);
  });
}

test("asksForAnother() is false for the response of a plugin", () => {
  const response = { status: 503, failure: null, endpoint: null } as HttpResponse;
  const policy = policyOf({ retryOn: ["5xx"] });
  assert.equal(policy && asksForAnother(policy, response), false);
});
