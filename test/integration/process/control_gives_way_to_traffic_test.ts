import assert from "node:assert/strict";
import { getPriority } from "node:os";
import { test } from "node:test";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { runPostern } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";
import { threadsOf } from "../../kit/process/memory.ts";

/** The lowest priority there is. */
const LAST = 19;

test("the control thread has lower priority than traffic threads once ready", async () => {
  await using mesh = await createFileSidecar();
  await using web = runPostern(mesh.args);
  await web.waitReady();
  const { pid } = web.process;
  const own = getPriority(0);
  // The first thread of a process has its number.
  const niceOfMain = () => threadsOf(pid).find(({ id }) => id === pid)?.nice;
  await eventually("the main thread to stand back", () => niceOfMain() === Math.min(own + 5, LAST));
  const others = threadsOf(pid).filter(({ id }) => id !== pid);
  assert.ok(others.some(({ nice }) => nice === own), "all threads stood back");
});
