import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import type { BunRuntime, BunSocket } from "../bun/bun_sockets.ts";
import { openStandardStream, PIPE_BYTES } from "./standard_stream.ts";

const LINE = new TextEncoder().encode("line\n");

/** Writes until no more is taken; returns the error code of that. */
function fill(write: (bytes: Uint8Array) => number): unknown {
  const block = new Uint8Array(PIPE_BYTES);
  try {
    for (let blocks = 0; blocks < 10_000; blocks++) write(block);
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
  return "takes everything";
}

function inFolder(use: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), "postern-stream-"));
  try {
    use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("openStandardStream() appends to a file", () =>
  inFolder((folder) => {
    const path = join(folder, "log");
    const fd = openSync(path, "a");
    assert.equal(openStandardStream(fd)(LINE), LINE.length);
    closeSync(fd);
    assert.equal(readFileSync(path, "utf8"), "line\n");
  }));

test("openStandardStream() of a closed descriptor fails when it is written to", () => {
  assert.throws(() => openStandardStream(1_000_000)(LINE));
});

if (process.platform === "linux") {
  test("openStandardStream() does not wait for a pipe without a reader", () =>
    inFolder((folder) => {
      const path = join(folder, "pipe");
      execFileSync("mkfifo", [path]);
      const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
      const fd = openSync(path, "w");
      const write = openStandardStream(fd);
      assert.equal(write(LINE), LINE.length);
      assert.equal(readSync(reader, new Uint8Array(9)), LINE.length);
      assert.equal(fill(write), "EAGAIN");
      closeSync(reader);
      assert.throws(() => write(LINE), { code: "EPIPE" });
      closeSync(fd);
    }));
}

const { Bun } = globalThis as { readonly Bun?: BunRuntime };
if (Bun && process.platform === "linux") {
  test("openStandardStream() does not wait for a socket without a reader, and notices its close", async () => {
    const accepted = Promise.withResolvers<BunSocket>();
    const where = { hostname: "127.0.0.1", port: 0, reusePort: false, exclusive: true } as const;
    const received = Promise.withResolvers<string>();
    const listener = Bun.listen({
      ...where,
      allowHalfOpen: true,
      socket: {
        open: accepted.resolve,
        data: (_socket, chunk) => received.resolve(new TextDecoder().decode(chunk)),
      },
    });
    const client = await Bun.connect({
      hostname: where.hostname,
      port: listener.port,
      allowHalfOpen: true,
      data: undefined,
      socket: { data() {} },
    }) as BunSocket;
    const write = openStandardStream(client.fd);
    assert.equal(write(LINE), LINE.length);
    assert.equal(await received.promise, "line\n");
    const reader = await accepted.promise;
    reader.pause();
    assert.equal(fill(write), "EAGAIN");
    reader.terminate();
    assert.throws(() => write(LINE), { code: "EPIPE" });
    client.terminate();
    listener.stop(true);
  });
}
