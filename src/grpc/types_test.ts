import assert from "node:assert/strict";
import test from "node:test";
import { formatStatus, grpcStatus } from "./types.ts";

for (
  const [code, text, wanted] of [
    [14, "connection dropped", "UNAVAILABLE: connection dropped"],
    [0, "", "OK"],
    [0, "OK", "OK"],
    [3, "a line\nand\u2028another\x9b ", "INVALID_ARGUMENT: a line and another"],
    [17, "a later code", "UNKNOWN: a later code"],
    [13, "x".repeat(501), `INTERNAL: ${"x".repeat(500)}`],
  ] as const
) {
  test(`grpcStatus() ${code} ${JSON.stringify(text.slice(0, 30))} is one bounded line`, () => {
    assert.equal(formatStatus(grpcStatus(code, text)), wanted);
  });
}
