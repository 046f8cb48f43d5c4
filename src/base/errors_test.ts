import assert from "node:assert/strict";
import { test } from "node:test";
import { ERROR_CAUSES } from "./error_causes.ts";
import { ERROR_CODES, severityOf } from "./errors.ts";

for (
  const [level, codes] of [
    ["warn", ["endpoint_refused", "endpoint_reset", "no_endpoint", "local_refused", "overloaded"]],
    ["warn", ["response_timed_out", "plugin_failed", "identity_invalid", "refused_by_peer"]],
    ["info", ["intention_denied", "plugin_denied", "rate_limited", "unauthenticated"]],
    ["info", ["downstream_reset", "request_invalid", "handshake_failed", "drained"]],
    ["debug", ["closed_early"]],
  ] as const
) {
  for (const code of codes) {
    test(`severityOf() of ${code} is ${level}`, () => assert.equal(severityOf(code), level));
  }
}

for (const code of ERROR_CODES) {
  test(`ERROR_CAUSES has cause and cure of ${code}`, () => {
    const { cause, cure } = ERROR_CAUSES[code];
    for (const text of [cause, cure]) assert.match(text, /^[A-Za-z].{10,300}\.$/);
  });
}
