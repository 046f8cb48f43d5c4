import assert from "node:assert/strict";
import test from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { advanceUntil } from "../../../test/kit/secrets/followed_files.ts";
import { ProxyError } from "../../base/mod.ts";
import { FileHub } from "./file_hub.ts";
import { type FileSystem, readStable, realFiles } from "./file_system.ts";

/** Times of readings and checks, with fake files and a fake clock. */

function setUp() {
  const clock = new FakeClock();
  const disk = { text: "one", stamp: "1" };
  const files: FileSystem = {
    read: () =>
      Promise.resolve({
        bytes: new TextEncoder().encode(disk.text),
        stamp: disk.stamp,
        mode: 0o600,
      }),
    stamp: () => Promise.resolve(disk.stamp),
    entry: () => Promise.resolve({ kind: "other" }),
    identity: () => Promise.resolve("1"),
    watch: () => ({ close() {} }),
  };
  const hub = new FileHub({ clock, files });
  const reported: string[] = [];
  let judged = 0;
  let fault = "";
  const watch = hub.follow<string>({
    files: [{ path: "/web.pem", limitBytes: 100, secret: false }],
    watch: true,
    async load(read) {
      judged++;
      if (fault) throw new ProxyError("credentials_invalid", fault);
      return new TextDecoder().decode(await read("/web.pem", 100));
    },
  }, {
    onValue: (value) => void reported.push(value),
    onRejected: (reason) => void reported.push(reason),
    onRecovered: () => void reported.push("recovered"),
  });
  return {
    clock,
    disk,
    hub,
    reported,
    watch,
    judged: () => judged,
    failWith: (reason: string) => void (fault = reason),
  };
}

test("FileFollower does not check accepted content again when its files are touched", async () => {
  const { clock, disk, hub, reported, watch, judged } = setUp();
  await advanceUntil(clock, () => reported.length > 0);
  for (let touch = 2; touch < 6; touch++) {
    disk.stamp = `${touch}`;
    watch.refresh();
    await clock.advance(1_000);
  }
  assert.deepEqual([judged(), reported], [1, ["one"]]);
  await hub.close();
});

test("FileFollower checks refused content again later, because it may have become valid", async () => {
  const { clock, hub, reported, judged, failWith } = setUp();
  failWith("not valid yet");
  await advanceUntil(clock, () => reported.length > 0);
  assert.deepEqual(reported, ["not valid yet"]);
  failWith("");
  const startMs = clock.monotonic();
  await advanceUntil(clock, () => reported.includes("one"), 20_000);
  assert.ok(clock.monotonic() - startMs > 3_000, `${clock.monotonic() - startMs} ms`);
  assert.equal(judged(), 2);
  await hub.close();
});

test("FileFollower sometimes reads files whose stamps are unchanged", async () => {
  const { clock, disk, hub, reported } = setUp();
  await advanceUntil(clock, () => reported.length > 0);
  await clock.advance(180_000);
  disk.text = "two";
  // The next polls compare only stamps.
  await clock.advance(20_000);
  assert.deepEqual(reported, ["one"]);
  await clock.advance(300_000);
  assert.deepEqual(reported, ["one", "two"]);
  await hub.close();
});

test("FileFollower.refresh() resolves when the current content is reported, good or bad", async () => {
  const { clock, disk, hub, reported, watch, failWith } = setUp();
  const seen: string[] = [];
  const refresh = () =>
    void Promise.resolve(watch.refresh()).then(() => seen.push(reported.join()));
  refresh();
  await advanceUntil(clock, () => seen.length > 0);
  disk.text = "two";
  // The running look may have read the old content.
  refresh();
  refresh();
  await advanceUntil(clock, () => seen.length > 2);
  assert.deepEqual(seen.splice(0), ["one", "one,two", "one,two"]);

  // Incomplete files are waited for until they are refused.
  disk.text = "three";
  failWith("half");
  refresh();
  await clock.advance(500);
  assert.deepEqual(seen, []);
  failWith("");
  disk.text = "four";
  await advanceUntil(clock, () => seen.length > 0);
  assert.deepEqual(seen.splice(0), ["one,two,recovered,four"]);
  disk.text = "five";
  failWith("bad");
  const startMs = clock.monotonic();
  refresh();
  await advanceUntil(clock, () => seen.length > 0);
  assert.deepEqual(seen.splice(0), ["one,two,recovered,four,bad"]);
  assert.ok(clock.monotonic() - startMs < 2_000);
  // The fault was reported before, so the refresh resolves at once.
  refresh();
  await advanceUntil(clock, () => seen.length > 0);
  assert.equal(seen.splice(0).length, 1);

  refresh();
  await hub.close();
  await advanceUntil(clock, () => seen.length > 0);
  await watch.refresh();
});

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
