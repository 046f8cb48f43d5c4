import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { systemClock } from "../../base/mod.ts";
import { NativeListener } from "./bun_listener.ts";
import { type BunRuntime, type BunSocket, type BunSocketHandler, served } from "./bun_sockets.ts";
import { cLibrary } from "../linux/c_library.ts";

test("NativeListener leaves no file of a unix socket that cannot be bound", () => {
  const directory = mkdtempSync(join(tmpdir(), "postern-listen-"));
  const bun = {
    listen() {
      throw Object.assign(new Error("no descriptor"), { code: "EMFILE" });
    },
  } as unknown as BunRuntime;
  try {
    const address = { kind: "unix", path: join(directory, "a.sock"), mode: 0o660 } as const;
    const options = { longestRow: 1, socket: {} };
    assert.throws(() => new NativeListener(bun, { address, reusePort: false }, options), {
      code: "listen_failed",
    });
    assert.deepEqual(readdirSync(directory), []);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

/** A native listener; undefined: not on Bun. The fake runtime returns it and passes on its callbacks. */
function onRealSocket() {
  const { Bun } = globalThis as { readonly Bun?: BunRuntime };
  if (!Bun || !cLibrary()) return undefined;
  const socket = { data() {} };
  const where = { hostname: "127.0.0.1", port: 0, reusePort: false, exclusive: true } as const;
  const real = Bun.listen({ ...where, allowHalfOpen: true, socket });
  let handler: BunSocketHandler = {};
  const bun = {
    listen(options: { readonly socket: BunSocketHandler }) {
      handler = options.socket;
      return real;
    },
  } as unknown as BunRuntime;
  const address = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const opened: BunSocket[] = [];
  const listener = new NativeListener(bun, { address, reusePort: false }, {
    longestRow: 3,
    socket: { open: (client) => opened.push(client), drain() {} },
  });
  return {
    listener,
    port: real.port,
    opened,
    come: (count: number) => {
      for (let index = 0; index < count; index++) handler.open?.({} as BunSocket);
    },
    rests: () => !readlinkSync(`/proc/self/fd/${real.fd}`).startsWith("socket:"),
  };
}

test("NativeListener serves open connections between batches of new ones", async () => {
  const parts = onRealSocket();
  if (!parts) return;
  const { listener, opened, come, rests } = parts;
  come(2);
  served.count++;
  come(2);
  assert.equal(rests(), false);
  come(1);
  assert.equal(rests(), true);
  await new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
  assert.equal(rests(), false);
  assert.equal(opened.length, 5);
  come(2);
  assert.equal(rests(), false);
  come(1);
  listener.pause();
  await new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
  assert.equal(rests(), true, "paused for longer than a breath");
  listener.resume();
  assert.equal(rests(), false);
  listener.close();
});

test("NativeListener defers accepts after a rest in which that was requested", async () => {
  const parts = onRealSocket();
  if (!parts) return;
  const { listener, opened, port } = parts;
  listener.pause();
  listener.defer();
  listener.resume();
  const client = connect({ host: "127.0.0.1", port });
  await once(client, "connect");
  await new Promise<void>((resolve) => systemClock.after(5, resolve));
  assert.equal(opened.length, 0);
  client.write("hello");
  while (opened.length === 0) await new Promise<void>((resolve) => setImmediate(resolve));
  client.destroy();
  listener.close();
});

test("NativeListener binds again if its clients cannot wait, with the current callbacks", () => {
  const log: string[] = [];
  const bun = {
    listen({ port, socket }: { readonly port: number; readonly socket: BunSocketHandler }) {
      log.push(`listen ${port}${socket.close ? " deferred" : ""}`);
      return {
        port: 5,
        fd: -1,
        stop: () => log.push("stop"),
        reload: (changed: { readonly socket: BunSocketHandler }) =>
          log.push(`reload${changed.socket.close ? " deferred" : ""}`),
      };
    },
  } as unknown as BunRuntime;
  const address = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const bind = () =>
    new NativeListener(bun, { address, reusePort: false }, {
      longestRow: 1,
      socket: {},
      deferredSocket: { close() {} },
    });
  const listener = bind();
  assert.deepEqual(listener.address, { ...address, port: 5 });
  assert.equal(listener.keepsWaiting, false);
  for (const act of ["resume", "pause", "pause", "resume"] as const) listener[act]();
  listener.defer();
  listener.defer();
  listener.pause();
  listener.resume();
  listener.close();
  const rested = bind();
  for (const act of ["pause", "close", "resume"] as const) rested[act]();
  assert.deepEqual(log, [
    "listen 0",
    "stop",
    "listen 5",
    "reload deferred",
    "stop",
    "listen 5 deferred",
    "stop",
    "listen 0",
    "stop",
  ]);
});
