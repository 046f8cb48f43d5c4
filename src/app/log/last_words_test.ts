import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { exitCodeOf, lastWords, wantsJson } from "./last_words.ts";

for (
  const [words, want] of [
    ["proxy -sidecar-for web", false],
    ["proxy -log-json", true],
    ["proxy -bad --log-json=true", true],
    ["proxy -log-json=false", false],
    ["proxy -log-json -log-json=0", false],
    ["proxy -log-jsonx", false],
  ] as const
) {
  test(`wantsJson() of ${words}`, () => assert.equal(wantsJson(words.split(" ")), want));
}

test("lastWords() is a log line in JSON with -log-json, else text", () => {
  const error = new ProxyError("listen_failed", "Cannot listen\nat http://u:p@h\u202e");
  const nowMs = Date.UTC(2026, 10, 21, 7, 30);
  assert.equal(
    lastWords(error, { json: false, nowMs }),
    "postern: Cannot listen\nat http://(not shown)@h\\u202e",
  );
  assert.deepEqual(JSON.parse(lastWords(error, { json: true, nowMs })), {
    time: "2026-11-21T07:30:00.000Z",
    level: "error",
    message: "Cannot listen\nat http://(not shown)@h\u202e",
    code: "listen_failed",
  });
  assert.equal(JSON.parse(lastWords("odd", { json: true, nowMs })).message, "odd");
});

test("exitCodeOf() is 2 for usage and configuration, else 1", () => {
  assert.equal(exitCodeOf(new ProxyError("usage", "x")), 2);
  assert.equal(exitCodeOf(new ProxyError("config_invalid", "x")), 2);
  assert.equal(exitCodeOf(new ProxyError("listen_failed", "x")), 1);
  assert.equal(exitCodeOf(new Error("x")), 1);
});
