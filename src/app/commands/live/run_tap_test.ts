import assert from "node:assert/strict";
import { test } from "node:test";
import { tapText } from "./run_tap.ts";

test("tapText() names a rule once", () => {
  const rule = "default/web => default/db (precedence 9, deny)";
  const text = tapText({
    at: "2026-01-31T00:00:00.000Z",
    kind: "connection",
    direction: "inbound",
    caller: "web",
    upstream: "",
    method: "",
    path: "",
    status: 0,
    durationMs: 1,
    endpoint: "",
    route: "",
    attempts: 1,
    code: "intention_denied",
    reason: rule,
    rule,
    deniedBy: "",
    receivedBytes: 0,
    sentBytes: 0,
    headers: {},
    responseHeaders: {},
  }, { screen: { width: undefined, color: false }, name: "", service: "db" });
  assert.equal(
    text,
    `00:00:00.000Z ended      1.0ms web => db connection intention_denied, ${rule} (inbound, in 0B out 0B)`,
  );
});
