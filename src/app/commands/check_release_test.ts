import assert from "node:assert/strict";
import { test } from "node:test";
import { comparison } from "./check_release.ts";

const sums = (...versions: string[]) =>
  versions.map((version) => `${"a".repeat(64)}  postern-${version}-linux-x64.tar.gz\n`).join("");

for (
  const [name, text, line, isOld] of [
    ["the same version", sums("0.9.0"), "postern 0.9.0 is the newest at x", false],
    ["an older release", sums("0.8.9"), "postern 0.9.0 is the newest at x", false],
    ["a newer one", sums("0.9.0", "0.10.0"), "postern 0.9.0: 0.10.0 was published at x", true],
    ["other files", `${sums("1.0.0")}${"b".repeat(64)}  postern-9.cdx.json\n`, /1\.0\.0/, true],
  ] as const
) {
  test(`comparison() knows ${name}`, () => {
    const found = comparison(text, { version: "0.9.0", from: "x" });
    assert.equal(found.isOld, isOld);
    if (typeof line === "string") assert.equal(found.line, line);
    else assert.match(found.line, line);
  });
}

test("comparison() refuses a file of something else", () => {
  const other = "<html>postern-9.9.9-linux-x64.tar.gz";
  assert.throws(() => comparison(other, { version: "0.9.0", from: "x" }), /names no release/);
});
