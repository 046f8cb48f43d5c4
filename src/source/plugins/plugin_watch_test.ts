import assert from "node:assert/strict";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { eventually } from "../../../test/kit/process/process.ts";
import { systemClock } from "../../base/mod.ts";
import { PluginWatch } from "./plugin_watch.ts";

test("PluginWatch reports a change once the file is at rest, and only once", async () => {
  const clock = new FakeClock();
  const stamps = new Map([["/a", "1"], ["/b", "1"]]);
  const watch = new PluginWatch(clock, (path) => Promise.resolve(stamps.get(path) ?? ""));
  let changes = 0;
  watch.start(() => changes++);
  for (const path of ["/a", "/b", "/gone"]) await watch.add(path);
  await clock.advance(600);
  assert.equal(changes, 0);
  for (const stamp of ["2", "3", "4"]) {
    stamps.set("/a", stamp);
    await clock.advance(60);
  }
  assert.equal(changes, 0);
  await clock.advance(60);
  assert.equal(changes, 1);
  await clock.advance(600);
  assert.equal(changes, 1);
  stamps.set("/gone", "1").delete("/b");
  await clock.advance(120);
  assert.equal(changes, 2);
  watch.close();
  stamps.clear();
  await clock.advance(600);
  assert.equal(changes, 2);
});

test("PluginWatch sees a file that is written, and one that takes its place", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-watch-"));
  const [file, other] = [join(directory, "a.ts"), join(directory, "b.ts")];
  const watch = new PluginWatch(systemClock);
  let changes = 0;
  try {
    await writeFile(file, "one");
    await watch.add(file);
    watch.start(() => changes++);
    await writeFile(file, "two");
    await eventually("the change is reported", () => Promise.resolve(changes === 1));
    await writeFile(other, "two");
    await rename(other, file);
    await eventually("the second change is reported", () => Promise.resolve(changes === 2));
  } finally {
    watch.close();
    await rm(directory, { recursive: true });
  }
});
