import assert from "node:assert/strict";
import test from "node:test";
import { advanceUntil } from "../../../test/kit/secrets/followed_files.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { realFiles } from "./file_system.ts";
import { readStable } from "./stable_read.ts";

for (
  const [name, stamps, want] of [
    ["uses files if two readings agree", ["1", "2", "2"], "read"],
    [
      "refuses files that are always being written, although the content is the same",
      [],
      "it changes",
    ],
  ] as const
) {
  test(`readStable() ${name}`, async () => {
    const clock = new FakeClock();
    let reads = 0;
    const read = () => {
      const stamp = stamps[reads++] ?? `${reads}`;
      return Promise.resolve({ bytes: new Uint8Array([1]), stamp, mode: 0o600 });
    };
    let ended = "";
    readStable([{ path: "/web.pem", limitBytes: 10, secret: false }], {
      files: { ...realFiles, read },
      clock,
      bounded: (task) => task(),
      isKnown: () => false,
    }).then(() => ended = "read", (error) => ended = error.message);
    await advanceUntil(clock, () => ended !== "");
    assert.ok(ended.includes(want), ended);
  });
}
