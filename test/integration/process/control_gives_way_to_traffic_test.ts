import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { getPriority } from "node:os";
import { test } from "node:test";
import { runPostern } from "../../kit/postern.ts";
import { createFileMesh } from "../../kit/file_mesh.ts";
import { eventually } from "../../kit/process.ts";

test("once ready, the thread that reads news stands behind those that carry traffic", async () => {
  await using mesh = await createFileMesh();
  await using web = runPostern(mesh.args);
  await web.waitReady();
  const { pid } = web.process;
  const behind = Math.min(getPriority(0) + 5, 19);
  // The first thread of a process has its number.
  const nice = () => niceOf(`/proc/${pid}/task/${pid}/stat`);
  await eventually("the main thread to stand back", () => nice() === behind);
  assert.ok(behind > getPriority(0));
});

/** Field 19 of `stat` (proc(5)); the name before it may hold spaces. */
function niceOf(path: string): number {
  const text = readFileSync(path, "utf8");
  return Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[16]);
}
