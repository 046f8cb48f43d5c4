/** The page for authors of plugins, walked with nothing but the executable. @module */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { walkFirstPlugin } from "../kit/plugins/first_plugin.ts";
import { runToEnd } from "../kit/process/process.ts";

const COMPILE = fileURLToPath(new URL("../../scripts/compile.ts", import.meta.url));
const DENO = "Deno" in globalThis ? process.execPath : "deno";

test("a first plugin is written, tested, checked and seen at work with the executable alone", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-executable-"));
  try {
    const postern = process.env.POSTERN_BIN ?? join(directory, "postern");
    if (!process.env.POSTERN_BIN) {
      await runToEnd(DENO, ["run", "-A", COMPILE, "--into", directory], { timeoutMs: 300_000 });
    }
    // Neither a runtime nor a package is in reach: env takes the search path away.
    await walkFirstPlugin(["/usr/bin/env", "-u", "PATH", postern]);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
