import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { sendUnixDatagram } from "./datagrams.ts";

interface Symbols {
  socket(family: number, type: number, protocol: number): number;
  bind(fd: number, address: Uint8Array, length: number): number;
  recv(fd: number, buffer: Uint8Array, length: bigint, flags: number): bigint | number;
  close(fd: number): number;
}

interface Foreign {
  dlopen(path: string, symbols: object): { readonly symbols: Symbols };
}

const onBun = process.versions.bun !== undefined && process.platform === "linux";
const MSG_DONTWAIT = 0x40;

/** A socket bound to `sunPath` (with its zero byte), read without waiting. */
function receiver(sunPath: string) {
  const load = process.getBuiltinModule as (name: string) => Foreign | undefined;
  const foreign = load("bun:ffi");
  assert.ok(foreign);
  const { symbols } = foreign.dlopen("libc.so.6", {
    socket: { args: ["i32", "i32", "i32"], returns: "i32" },
    bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
    recv: { args: ["i32", "ptr", "usize", "i32"], returns: "i64" },
    close: { args: ["i32"], returns: "i32" },
  });
  const fd = symbols.socket(1, 2, 0);
  const address = Buffer.from(`\x01\0${sunPath}`, "latin1");
  assert.equal(symbols.bind(fd, address, address.length), 0);
  return {
    read(): string {
      const buffer = Buffer.alloc(4_096);
      const length = Number(symbols.recv(fd, buffer, BigInt(buffer.length), MSG_DONTWAIT));
      return length < 0 ? "nothing" : buffer.toString("utf8", 0, length);
    },
    close: () => void symbols.close(fd),
  };
}

function reachesBoth(): void {
  const directory = mkdtempSync(join(tmpdir(), "postern-datagram-"));
  const path = join(directory, "socket");
  const name = `postern-datagram-${process.pid}`;
  try {
    for (const [target, sunPath] of [[path, `${path}\0`], [`@${name}`, `\0${name}`]] as const) {
      const socket = receiver(sunPath);
      assert.equal(sendUnixDatagram(target, "READY=1\nSTATUS=grün"), "sent");
      assert.equal(socket.read(), "READY=1\nSTATUS=grün");
      assert.equal(socket.read(), "nothing");
      socket.close();
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function doesNotWait(): void {
  const name = `postern-full-${process.pid}`;
  const socket = receiver(`\0${name}`);
  const results = Array.from({ length: 5_000 }, () => sendUnixDatagram(`@${name}`, "x".repeat(99)));
  assert.equal(results[0], "sent");
  assert.equal(results.at(-1), "failed");
  socket.close();
}

if (onBun) {
  test("sendUnixDatagram() reaches a socket by path and by abstract name", reachesBoth);
  test("sendUnixDatagram() does not wait for a receiver that does not read", doesNotWait);
}

for (
  const [name, path] of [
    ["no receiver", "/nonexistent/socket"],
    ["a relative path", "socket"],
    ["an empty path", ""],
    ["a path too long", `/${"x".repeat(108)}`],
    ["an abstract name too long", `@${"x".repeat(108)}`],
  ] as const
) {
  const want = onBun ? "failed" : "unsupported";
  test(`sendUnixDatagram() returns "${want}": ${name}`, () => {
    assert.equal(sendUnixDatagram(path, "READY=1"), want);
  });
}
