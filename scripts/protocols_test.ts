import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import test from "node:test";
import { MODULE_FILE, moduleOf, protoFiles } from "./protocols.ts";

test("protoFiles() finds those of SDS and the Workload API", () => {
  assert.deepEqual(protoFiles().map((path) => basename(path)), ["sds.proto", "workload.proto"]);
});

test("the .proto files and the module made from them say the same", () => {
  const made = moduleOf(protoFiles());
  assert.equal(readFileSync(MODULE_FILE, "utf8"), made, "run scripts/protocols.ts");
});
