import assert from "node:assert/strict";
import test from "node:test";
import { silentLog } from "../../base/mod.ts";
import { DirectoryWatches } from "./watches.ts";
import { realFiles } from "./file_system.ts";

test("DirectoryWatches.verify() gives a hint for a directory that was replaced", async () => {
  let identity = "1";
  const watches = new DirectoryWatches({
    ...realFiles,
    identity: () => Promise.resolve(identity),
    watch: () => ({ close() {} }),
  }, silentLog);
  const hints: boolean[] = [];
  await watches.set((exact) => void hints.push(exact), [{ directory: "/tls", name: "web.pem" }]);
  await watches.verify();
  assert.deepEqual(hints, []);
  identity = "2";
  await watches.verify();
  assert.deepEqual(hints, [true]);
  watches.close();
});
