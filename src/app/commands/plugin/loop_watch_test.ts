import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { OWN_ENGINE } from "../../../../test/kit/process/postern.ts";
import { Process } from "../../../../test/kit/process/process.ts";

test("LoopWatch names what holds the thread, and ends the process", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-loop-"));
  try {
    const file = join(directory, "loops.ts");
    await writeFile(
      file,
      `import { LoopWatch } from ${JSON.stringify(new URL("loop_watch.ts", import.meta.url).href)};
const watch = new LoopWatch(1_000);
watch.runs("ends in time");
// Longer than the limit, but the thread is free.
setTimeout(() => {
  watch.runs("for ever");
  for (;;);
}, 2_000);
`,
    );
    const words = OWN_ENGINE === "deno" ? ["run", "-A", "--no-check", file] : [file];
    await using looping = new Process(process.execPath, words, { name: "loops" });
    assert.deepEqual(await looping.waitExit({ timeoutMs: 30_000 }), {
      code: null,
      signal: "SIGKILL",
    });
    assert.match(looping.output, /^ {2}failed {2}for ever\n {10}it loops: .* go for 1 s, so no/);
  } finally {
    await rm(directory, { recursive: true });
  }
});
