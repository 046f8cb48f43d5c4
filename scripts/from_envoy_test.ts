import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fromEnvoyTables } from "./from_envoy.ts";

/** The formatter aligns tables and breaks lines. */
function words(text: string): string {
  return text.replace(/-{3,}/g, "---").replace(/\s+/g, " ");
}

test("docs/from-envoy.md has the tables as the code has them", () => {
  const page = readFileSync(join(import.meta.dirname ?? ".", "../docs/from-envoy.md"), "utf8");
  for (const section of fromEnvoyTables().split(/^(?=## )/m)) {
    assert.ok(words(page).includes(words(section).trim()), `run "deno task docs": ${section}`);
  }
});
