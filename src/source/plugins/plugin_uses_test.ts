import assert from "node:assert/strict";
import { test } from "node:test";
import * as v from "valibot";
import { isFile, PLUGINS } from "./read_plugins.ts";

const PIN = "0a".repeat(32);

for (
  const [name, entry, want] of [
    ["a name", { use: "header_rules" }, undefined],
    ["a file with a pin", { use: "./a.ts", sha256: PIN, allow: ["node:crypto"] }, undefined],
    ["a pin in capitals", { use: "a.js", sha256: PIN.toUpperCase() }, undefined],
    ["a short pin", { use: "./a.ts", sha256: "0a" }, ["0.sha256", /64 hexadecimal digits/]],
    ["a pin of a name", { use: "a", sha256: PIN }, ["0.sha256", /belongs to a plugin from a file/]],
    ["leave for a name", { use: "a", allow: [] }, ["0.allow", /belongs to a plugin from a file/]],
    ["leave for all", { use: "./a.ts", allow: ["*"] }, ["0.allow.0", /must be a module of Node's/]],
  ] as const satisfies readonly (readonly [
    string,
    unknown,
    readonly [string, RegExp] | undefined,
  ])[]
) {
  test(`PLUGINS ${want ? "refuses" : "takes"} ${name}`, () => {
    const result = v.safeParse(PLUGINS, [entry]);
    assert.equal(result.success, want === undefined);
    const [issue] = result.issues ?? [];
    if (!want || !issue) return;
    assert.equal(v.getDotPath(issue), want[0]);
    assert.match(issue.message, want[1]);
  });
}

test("isFile() knows a path by its slash or its end", () => {
  const names = ["./a.mts", "/etc/a", "a.ts", "a.js", "header_rules", "a.mts", "ts"];
  assert.deepEqual(names.filter(isFile), ["./a.mts", "/etc/a", "a.ts", "a.js"]);
});
