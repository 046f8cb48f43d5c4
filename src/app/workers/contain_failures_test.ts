import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createLog, type LogRecord, Stats } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { OWN_ENGINE } from "../../../test/kit/process/postern.ts";
import { FailureContainer } from "./contain_failures.ts";

test("FailureContainer logs one failure a second with its place, and counts the others", () => {
  const clock = new FakeClock();
  const stats = new Stats();
  const lines: LogRecord[] = [];
  const container = new FailureContainer({
    log: createLog({ clock, holder: { level: "info" }, write: (line) => lines.push(line) }),
    stats,
    nowMs: () => clock.monotonic(),
  });
  for (let i = 0; i < 100; i++) container.failed(new Error("oh no"));
  clock.advanceNow(1_000);
  container.failed("no error");
  assert.deepEqual(
    lines.map(({ level, fields }) => [level, fields["reason"], fields["more"]]),
    [["error", "oh no", undefined], ["error", "no error", 99]],
  );
  assert.match(String(lines[0]?.fields["place"]), /contain_failures_test/);
  assert.deepEqual(stats.samples().map(({ name, value }) => [name, value]), [
    ["plugin_loose_failures_total", 101],
  ]);
});

test("a worker with plugins survives an unhandled rejection", async () => {
  // In a child process: Bun's test runner would count the worker's failure as the test's.
  const child = fileURLToPath(
    new URL("../../../test/kit/process/loose_failure.ts", import.meta.url),
  );
  const words = OWN_ENGINE === "deno" ? ["run", "-A", "--no-check", child] : [child];
  const { stdout } = await promisify(execFile)(process.execPath, words, { timeout: 50_000 });
  assert.match(stdout, /^outlived 1, died 0$/m);
});
