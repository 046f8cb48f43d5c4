import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { getPriority } from "node:os";
import { test } from "node:test";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { runPostern } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";

/** The lowest priority there is. */
const LAST = 19;

test("the control thread has lower priority than traffic threads once ready", async () => {
  await using mesh = await createFileSidecar();
  await using web = runPostern(mesh.args);
  await web.waitReady();
  const { pid } = web.process;
  const own = getPriority(0);
  // The first thread of a process has its number.
  await eventually(
    "the main thread to stand back",
    () => niceOf(pid, pid) === Math.min(own + 5, LAST),
  );
  const others = readdirSync(`/proc/${pid}/task`).map(Number).filter((thread) => thread !== pid);
  assert.ok(others.some((thread) => niceOf(pid, thread) === own), "all threads stood back");
});

/** Field 19 of `stat` (proc(5)); the name before it may hold spaces. */
function niceOf(pid: number, thread: number): number {
  const text = readFileSync(`/proc/${pid}/task/${thread}/stat`, "utf8");
  return Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[16]);
}
