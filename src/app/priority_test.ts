import assert from "node:assert/strict";
import { getPriority } from "node:os";
import process from "node:process";
import { test } from "node:test";
import { giveWayToTraffic } from "./priority.ts";

if (process.platform === "linux") {
  test("giveWayToTraffic() steps back from where the process was started", () => {
    const before = getPriority(0);
    giveWayToTraffic();
    assert.equal(getPriority(0), Math.min(before + 5, 19));
  });
}
