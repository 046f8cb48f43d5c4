import { strict as assert } from "node:assert";
import process from "node:process";
import { test } from "node:test";
import { IS_COMPILED, VERSION, versionLine } from "./version.ts";

test("versionLine() names version, engine and platform", () => {
  assert.match(VERSION, /^\d+\.\d+\.\d+$/);
  assert.equal(IS_COMPILED, false);
  assert.equal(
    versionLine("bun 1.4.5"),
    `postern ${VERSION} (from source, bun 1.4.5, ${process.platform} ${process.arch})`,
  );
});
