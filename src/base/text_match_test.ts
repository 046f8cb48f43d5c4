import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "./errors.ts";
import { compileRegex, prepareRegexes } from "./text_match.ts";

test("compileRegex() throws while the engine is not loaded", async () => {
  assert.throws(() => compileRegex("a", null), (error) => {
    assert.ok(error instanceof ProxyError);
    assert.equal(error.code, "internal");
    assert.match(error.message, /prepareRegexes\(\) was not awaited/);
    return true;
  });
  await prepareRegexes();
  assert.equal(compileRegex("a").kind, "compiled");
});
