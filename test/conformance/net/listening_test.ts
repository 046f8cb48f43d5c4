/**
 * The contract of listeners: addresses, unix sockets, who may listen twice, and pausing.
 *
 * @module
 */

import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type BindAddress, ProxyError } from "../../../src/base/mod.ts";
import type { Listener } from "../../../src/net/mod.ts";
import { dial, engine, LOOPBACK, portOf, quiet, SecureServer, Side, Waiting } from "./kit.ts";

class Server extends Waiting implements Disposable {
  readonly sides: Side[] = [];
  readonly listener: Listener;

  private constructor(listener: Listener, sides: Side[]) {
    super();
    this.listener = listener;
    this.sides = sides;
  }

  static async start(address: BindAddress = LOOPBACK, reusePort = false): Promise<Server> {
    const sides: Side[] = [];
    const listener = await engine.listen({ address, reusePort }, (connection) => {
      sides.push(new Side(connection));
      server?.woken();
    });
    const server: Server | undefined = new Server(listener, sides);
    return server;
  }

  async accepted(count: number): Promise<void> {
    await this.until(() => this.sides.length >= count, () => `accepted ${this.sides.length}`);
  }

  [Symbol.dispose](): void {
    this.listener.close();
    for (const { connection } of this.sides) connection.reset();
  }
}

class Folder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "postern-net-"));
  file(name: string): string {
    return join(this.path, name);
  }
  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }
}

function refused(address: BindAddress, pattern: RegExp): Promise<void> {
  return assert.rejects(
    engine.listen({ address, reusePort: false }, () => {}),
    (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "listen_failed");
      assert.match(error.message, pattern);
      return true;
    },
  );
}

test("a listener on all addresses gives connections that know which one their client chose", async () => {
  using server = await Server.start({ ...LOOPBACK, host: "0.0.0.0" });
  const plain = await dial(portOf(server.listener), { material: null }).side();
  await server.accepted(1);
  const ends = ({ connection: { local, remote } }: Side) => [local, remote];
  const [accepted] = server.sides;
  assert.ok(accepted);
  assert.deepEqual(ends(accepted), ends(plain).toReversed());
  assert.equal(accepted.connection.local, `127.0.0.1:${portOf(server.listener)}`);

  let local = "";
  await using secure = await SecureServer.start(undefined, (accepted, tls) => {
    local = accepted.local;
    accepted.secure(tls, (outcome) => secure.settled(outcome));
  }, { ...LOOPBACK, host: "0.0.0.0" });
  const client = await dial(secure.port).side();
  const secured = await secure.side();
  assert.deepEqual(ends(secured), ends(client).toReversed());
  assert.equal(secured.connection.local, local);
  assert.equal(local, `127.0.0.1:${secure.port}`);
});

test("a connection through a unix socket has no addresses", async () => {
  using folder = new Folder();
  const path = folder.file("socket");
  using server = await Server.start({ kind: "unix", path });
  await dial(0, { material: null, path }).side();
  await server.accepted(1);
  const [accepted] = server.sides;
  assert.equal(accepted?.connection.local, "unix");
  assert.equal(accepted?.connection.remote, "unix");
});

/** Containers often have IPv6 switched off. */
function isHere(host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.on("error", () => resolve(false));
    server.listen(0, host, () => server.close(() => resolve(true)));
  });
}

for (const host of ["127.0.0.1", "::1"]) {
  test(`listen() on port 0 of ${host} reports the port and the peer`, async () => {
    if (host === "::1" && !await isHere(host)) {
      return await refused({ kind: "tcp", host, port: 0 }, /^Cannot listen on .*no such address$/);
    }
    using server = await Server.start({ kind: "tcp", host, port: 0 });
    const port = portOf(server.listener);
    assert.ok(port > 0);
    const results: Side[] = [];
    const waiting = new Waiting();
    engine.dial({ address: { kind: "tcp", host, port } }, {
      onConnected: (connection) => {
        results.push(new Side(connection));
        waiting.woken();
      },
      onFailed: (_stage, reason) => assert.fail(reason),
    });
    await server.accepted(1);
    await waiting.until(() => results.length === 1, () => "not connected");
    const shown = host === "::1" ? "[::1]" : host;
    assert.equal(results[0]?.connection.remote, `${shown}:${port}`);
    assert.match(server.sides[0]?.connection.remote ?? "", /^(127\.0\.0\.1|\[::1\]):\d+$/);
    results[0]?.connection.reset();
  });
}

test("listen() names the fault of an address", async () => {
  using server = await Server.start();
  await refused({ ...LOOPBACK, port: portOf(server.listener) }, /^Cannot listen on 127.*in use/);
  await refused({ kind: "tcp", host: "192.0.2.1", port: 0 }, /no such address/);
  await refused(
    { kind: "unix", path: "/nowhere/at/all.sock" },
    /^Cannot listen on unix:.*director/,
  );
});

test("listen() shares a port only where that is asked for", async () => {
  using first = await Server.start(LOOPBACK, true);
  const address = { ...LOOPBACK, port: portOf(first.listener) };
  using _second = await Server.start(address, true);
  await refused(address, /in use/);
});

test("listen() can have the port again at once after close()", async () => {
  using first = await Server.start();
  const address = { ...LOOPBACK, port: portOf(first.listener) };
  const client = await dial(address.port, { material: null }).side();
  await first.accepted(1);
  first.listener.close();
  // The open connection stays open.
  client.write("still here");
  await first.sides[0]?.received("still here");
  await quiet(5);
  using second = await Server.start(address);
  await dial(address.port, { material: null }).side();
  await second.accepted(1);
  assert.equal(first.sides.length, 1);
  client.connection.reset();
});

test("listen() serves a unix socket with the mode asked for", async () => {
  using folder = new Folder();
  const path = folder.file("a.sock");
  using server = await Server.start({ kind: "unix", path, mode: 0o600 });
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const client = await dial(0, { material: null, path }).side();
  assert.equal(client.connection.remote, `unix://${path}`);
  client.write("hello");
  client.connection.end();
  await server.accepted(1);
  const side = server.sides[0];
  assert.ok(side);
  assert.equal(side.connection.remote, "unix");
  await side.event("end");
  assert.equal(side.text, "hello");
  side.write("bye");
  side.connection.end();
  await client.over();
  assert.deepEqual(client.events, ["data", "end", "close"]);
});

test("listen() leaves nothing beside a unix socket with a mode, and nothing of it once closed", async () => {
  using folder = new Folder();
  const path = folder.file("a.sock");
  {
    using server = await Server.start({ kind: "unix", path, mode: 0o660 });
    await refused({ kind: "unix", path, mode: 0o660 }, /in use/);
    await dial(0, { material: null, path }).side();
    await server.accepted(1);
    assert.deepEqual(readdirSync(folder.path), ["a.sock"]);
  }
  assert.deepEqual(readdirSync(folder.path), []);
});

test("listen() with a mode refuses a path that has no room for a directory beside it", async () => {
  using folder = new Folder();
  const path = folder.file("a".repeat(104 - folder.path.length - 1));
  using _server = await Server.start({ kind: "unix", path });
  const parent = folder.file("d".repeat(100 - folder.path.length - 1));
  mkdirSync(parent);
  await refused({ kind: "unix", path: join(parent, "s"), mode: 0o600 }, /too long/);
});

test("listen() takes over a socket file that no process serves", async () => {
  using folder = new Folder();
  const path = folder.file("stale.sock");
  const abandoned = createServer();
  await new Promise<void>((resolve) => abandoned.listen(path, resolve));
  // A second name keeps the file when its server goes and takes the first away.
  const { linkSync, renameSync } = await import("node:fs");
  linkSync(path, folder.file("kept"));
  await new Promise<void>((resolve) => void abandoned.close(() => resolve()));
  renameSync(folder.file("kept"), path);
  assert.ok(existsSync(path));
  using server = await Server.start({ kind: "unix", path });
  await dial(0, { material: null, path }).side();
  await server.accepted(1);
});

test("listen() leaves alone a socket that is served, and a file that is none", async () => {
  using folder = new Folder();
  const path = folder.file("served.sock");
  using server = await Server.start({ kind: "unix", path });
  await refused({ kind: "unix", path }, /in use/);
  await dial(0, { material: null, path }).side();
  await server.accepted(1);
  const file = folder.file("file");
  writeFileSync(file, "precious");
  await refused({ kind: "unix", path: file }, /in use/);
  assert.equal(statSync(file).size, 8);
});

test("listen() reports a folder that it may not write", async () => {
  using folder = new Folder();
  chmodSync(folder.path, 0o555);
  const isRoot = process.geteuid?.() === 0;
  // Root may write anywhere, so the test runs as the user `nobody` for the moment.
  if (isRoot) process.seteuid?.(65_534);
  try {
    await refused({ kind: "unix", path: folder.file("a.sock") }, /permission denied/);
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
});

test("a paused listener gives no connection; resumed, it serves again", async () => {
  using server = await Server.start();
  const port = portOf(server.listener);
  const open = await dial(port, { material: null }).side();
  await server.accepted(1);
  for (let round = 1; round <= 3; round++) {
    server.listener.pause();
    server.listener.pause();
    const before = server.sides.length;
    const late = dial(port, { material: null });
    await quiet();
    assert.equal(server.sides.length, before);
    open.write("open ones go on");
    server.listener.resume();
    server.listener.resume();
    if (engine.name.startsWith("bun")) {
      // It waited in the kernel.
      (await late.side()).write("patient");
      await server.accepted(before + 1);
      await server.sides[before]?.received("patient");
    } else {
      await dial(port, { material: null }).side();
      await server.accepted(before + 1);
    }
  }
  await server.sides[0]?.received("open ones go on".repeat(3));
  server.listener.pause();
  server.listener.close();
  const gone = await dial(port, { material: null }).result();
  assert.equal(gone.kind, "failed");
});

async function pausedWithinABurst(): Promise<void> {
  let count = 0;
  const listener = await engine.listen({ address: LOOPBACK, reusePort: false }, () => {
    if (++count % 5 === 0) listener.pause();
  });
  assert.ok(listener.keepsWaiting);
  // All of them wait by the time the first one is accepted.
  const dials = Array.from({ length: 20 }, () => dial(portOf(listener), { material: null }));
  await Promise.all(dials.map((client) => client.side()));
  for (const want of [5, 10, 15, 20]) {
    for (let turn = 0; turn < 100 && count < want; turn++) await quiet();
    await quiet();
    assert.equal(count, want);
    listener.resume();
  }
  listener.pause();
  listener.close();
  const gone = await dial(portOf(listener), { material: null }).result();
  assert.equal(gone.kind, "failed");
}

async function openOneWithinABurst(): Promise<void> {
  let count = 0;
  let countAtData = 0;
  const listener = await engine.listen({ address: LOOPBACK, reusePort: false }, (connection) => {
    count++;
    connection.events = {
      onData: () => countAtData = count,
      onEnd: () => connection.close(),
      onDrain: () => {},
      onClose: () => {},
    };
  });
  assert.ok(listener.keepsWaiting);
  const open = await dial(portOf(listener), { material: null }).side();
  for (let turn = 0; turn < 100 && count < 1; turn++) await quiet();
  // All of them wait by the time that the loop turns.
  const burst = Array.from({ length: 500 }, () => connect(portOf(listener), "127.0.0.1"));
  open.write("hello");
  for (let turn = 0; turn < 200 && count < 501; turn++) await quiet();
  assert.equal(count, 501);
  assert.ok(countAtData > 0 && countAtData < 200, `served after ${countAtData}`);
  for (const socket of burst) socket.destroy();
  open.connection.close();
  listener.close();
}

// Deno closes the connections that it does not accept, and takes the others one by one.
if (engine.name.startsWith("bun")) {
  test(
    "a listener that keeps clients waiting accepts none after pause()",
    pausedWithinABurst,
  );
  test(
    "a burst of clients does not keep an open one waiting until all are accepted",
    openOneWithinABurst,
  );
}
