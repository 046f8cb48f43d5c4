import assert from "node:assert/strict";
import { mkdtemp, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createLog, Stats, systemClock } from "../../base/mod.ts";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import { accessTargetOf, AccessWriter } from "./access_writer.ts";
import { LogRings } from "./log_rings.ts";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { snapshotOf, withInbound } from "../../../test/kit/engine/snapshots.ts";
import type { AccessLogPart, PluginUse } from "../../snapshot/mod.ts";

/** A writer with a target that takes, refuses and fails as the test sets it. */
class Rig {
  readonly clock = new FakeClock();
  readonly rings: LogRings;
  readonly stats = new Stats();
  readonly logged: string[] = [];
  /** Name and bytes of each write; `-` in place of the bytes: the target was closed. */
  readonly written: string[] = [];
  /** Errors of the next writes, one each; a number: that many bytes are taken. */
  readonly faults: (string | number)[] = [];
  readonly openFaults: string[] = [];
  readonly writer: AccessWriter;

  constructor(ringBytes = 1 << 12) {
    const { clock, stats } = this;
    this.rings = LogRings.create(2, ringBytes);
    this.writer = new AccessWriter({
      rings: this.rings,
      clock,
      stats,
      log: createLog({
        clock,
        holder: { level: "debug" },
        write: ({ message, fields }) =>
          void this.logged.push(`${message} ${JSON.stringify(fields)}`),
      }),
      openTarget: async (to) => {
        const fault = this.openFaults.shift();
        if (fault !== undefined) throw new Error(fault);
        const name = to.kind === "file" ? to.path : to.kind;
        return await Promise.resolve({
          pieceBytes: 32,
          write: (bytes) => this.#write(name, bytes),
          close: () => Promise.resolve(void this.written.push(`${name} -`)),
        });
      },
    });
  }

  async #write(name: string, bytes: Uint8Array): Promise<number> {
    const fault = this.faults.shift();
    if (typeof fault === "string") throw Object.assign(new Error(fault), { code: fault });
    const taken = bytes.subarray(0, fault ?? bytes.length);
    this.written.push(`${name} ${new TextDecoder().decode(taken)}`);
    return await Promise.resolve(taken.length);
  }

  async put(text: string, thread = 0): Promise<void> {
    const bytes = new TextEncoder().encode(text);
    this.rings.of(thread).put(bytes, text.split("\n").length - 1);
    this.writer.drain();
    await settle();
  }

  get lost(): number | undefined {
    return this.stats.samples().find(({ name }) => name === "access_log_lines_dropped_total")
      ?.value;
  }
}

test("AccessWriter writes whole lines of every thread", async () => {
  const rig = new Rig();
  rig.writer.set({ kind: "stdout" });
  await rig.put("one\ntwo\n");
  await rig.put(`three\n${"x".repeat(30)}\n${"y".repeat(40)}\n`, 1);
  assert.deepEqual(rig.written, [
    "stdout one\ntwo\n",
    "stdout three\n",
    `stdout ${"x".repeat(30)}\n`,
    `stdout ${"y".repeat(32)}`,
    `stdout ${"y".repeat(8)}\n`,
  ]);
  assert.equal(rig.lost, 0);
});

test("AccessWriter keeps lines until the first snapshot sets their target", async () => {
  const rig = new Rig();
  await rig.put("early\n");
  rig.writer.set({ kind: "stderr" });
  await settle();
  assert.deepEqual(rig.written, ["stderr early\n"]);
});

test("AccessWriter waits for a reader that stalls; lines without room are counted and reported", async () => {
  const rig = new Rig(64);
  rig.writer.set({ kind: "stdout" });
  rig.faults.push(2, "EAGAIN", "EAGAIN");
  await rig.put("0123456789\n");
  assert.deepEqual(rig.written, ["stdout 01"]);
  await rig.put(`${"x".repeat(60)}\n`);
  await rig.clock.advance(50);
  await rig.clock.advance(50);
  await settle();
  assert.deepEqual(rig.written, ["stdout 01", "stdout 23456789\n"]);
  assert.equal(rig.lost, 1);
  assert.deepEqual(rig.logged, [
    'access log lines lost {"lines":1,"reason":"it was not written in time"}',
  ]);
});

test("AccessWriter loses lines on a full disk, reports the loss, and goes on at the start of a line", async () => {
  const rig = new Rig();
  rig.writer.set({ kind: "file", path: "/v/a" });
  rig.faults.push(2, "ENOSPC");
  await rig.put("one\n");
  rig.faults.push("ENOSPC");
  await rig.put("two\nthree\n");
  assert.equal(rig.lost, 3);
  assert.deepEqual(rig.logged, ['access log lines lost {"lines":1,"reason":"ENOSPC"}']);
  await rig.clock.advance(10_000);
  await rig.put("four\n");
  assert.deepEqual(rig.written, ["/v/a on", "/v/a \n", "/v/a four\n"]);
  assert.equal(rig.logged.length, 2);
  assert.match(rig.logged[1] ?? "", /"lines":2/);
});

test("AccessWriter tries a target again that could not be opened, without loss of lines", async () => {
  const rig = new Rig();
  rig.openFaults.push("EACCES", "EACCES");
  rig.writer.set({ kind: "file", path: "/v/a" });
  await rig.put("one\n");
  await rig.put("two\n");
  assert.deepEqual(rig.logged, [
    'access log cannot be opened; it is tried again {"error":"EACCES"}',
  ]);
  await rig.clock.advance(1_000);
  await rig.clock.advance(1_000);
  assert.deepEqual(rig.written, ["/v/a one\ntwo\n"]);
});

test("AccessWriter writes to the newest target and closes the old one", async () => {
  const rig = new Rig();
  rig.writer.set({ kind: "file", path: "/v/a" });
  await rig.put("one\n");
  rig.writer.set({ kind: "file", path: "/v/a" });
  await rig.put("two\n");
  rig.writer.set({ kind: "file", path: "/v/b" });
  await rig.put("three\n");
  rig.rings.of(0).put(new TextEncoder().encode("four\n"));
  rig.writer.set(null);
  await settle();
  await rig.put("late\n");
  rig.writer.set({ kind: "stdout" });
  await rig.put("five\n");
  assert.deepEqual(rig.written, [
    "/v/a one\n",
    "/v/a two\n",
    "/v/a -",
    "/v/b three\n",
    "/v/b four\n",
    "/v/b -",
    "stdout five\n",
  ]);
});

test("AccessWriter stops waiting for a stalled reader when the target changes, and at the end", async () => {
  const rig = new Rig();
  rig.writer.set({ kind: "stdout" });
  rig.faults.push("EAGAIN", "EAGAIN");
  await rig.put("one\n");
  rig.writer.set({ kind: "stderr" });
  await rig.put("two\n");
  await rig.clock.advance(50);
  assert.deepEqual(rig.written, ["stdout -", "stderr two\n"]);
  rig.faults.push(...Array<string>(1_000).fill("EAGAIN"));
  await rig.put("three\n");
  const closed = rig.writer.close();
  await rig.clock.advance(1_000);
  await closed;
});

test("AccessWriter appends to a file, and opens it again after it was moved away", async () => {
  const directory = await mkdtemp(join(tmpdir(), "access-"));
  try {
    const path = join(directory, "access.log");
    await writeFile(path, "before\n");
    const rings = LogRings.create(1, 1 << 16);
    const writer = new AccessWriter({
      rings,
      clock: systemClock,
      stats: new Stats(),
      log: createLog({ clock: systemClock, holder: { level: "error" }, write: () => {} }),
    });
    const put = (text: string) => rings.of(0).put(new TextEncoder().encode(text));
    writer.set({ kind: "file", path });
    put("one\n");
    writer.drain();
    while (await readFile(path, "utf8") !== "before\none\n") await settle();
    await rename(path, `${path}.1`);
    put("two\n");
    writer.drain();
    while (await readFile(`${path}.1`, "utf8") !== "before\none\ntwo\n") await settle();
    put("three\n");
    writer.reopen();
    await writer.close();
    assert.equal(await readFile(path, "utf8"), "three\n");
    assert.equal((await stat(path)).mode & 0o137, 0, "only owner and group may read it");
  } finally {
    await rm(directory, { recursive: true });
  }
});

test("accessTargetOf() is the configured target, else standard output when a plugin may write", () => {
  const local = { kind: "tcp", host: "127.0.0.1", port: 1 } as const;
  const snapshot = snapshotOf({ ca: createAuthority(), service: "web", local });
  const use: PluginUse = { plugin: "access_log", config: {}, onFailure: "refuse", at: "" };
  const withPlugin = withInbound(snapshot, { plugins: [use] });
  const to = { kind: "file", path: "/v/a" } as const;
  const accessLog: AccessLogPart = {
    version: 1,
    to,
    format: { kind: "default" },
    listeners: true,
  };
  assert.equal(accessTargetOf(snapshot), null);
  assert.deepEqual(accessTargetOf(withPlugin), { kind: "stdout" });
  assert.equal(accessTargetOf({ ...withPlugin, accessLog }), to);
});
