import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import test from "node:test";
import { moduleFile, moduleOf, protoFiles } from "./protocols.ts";

const files = protoFiles();

test("protoFiles() finds those of SDS and the Workload API", () => {
  assert.deepEqual(files.map((path) => basename(path)), ["sds.proto", "workload.proto"]);
});

for (const path of files) {
  test(`${basename(path)} and the module made from it say the same`, () => {
    const made = moduleOf(basename(path), readFileSync(path, "utf8"));
    assert.equal(readFileSync(moduleFile(path), "utf8"), made, "run scripts/protocols.ts");
  });
}
