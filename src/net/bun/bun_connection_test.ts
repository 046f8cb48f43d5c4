import assert from "node:assert/strict";
import { test } from "node:test";
import { logEvents, testEachEvent } from "../../../test/kit/engine/event_table.ts";
import { BunConnection, keepAlive } from "./bun_connection.ts";
import type { BunSocket } from "./bun_sockets.ts";

/** A socket that takes as much as there is room for, and closes at once. */
class FakeSocket {
  declare data: BunConnection;
  room = Infinity;
  looks = 0;
  readonly writes: Uint8Array[] = [];
  /** Calls of the socket, and events of its owner (`>`), in order. */
  readonly log: string[] = [];

  get remoteAddress(): string {
    this.looks++;
    return "192.0.2.1";
  }
  readonly remotePort = 5;
  get localAddress(): string {
    this.looks++;
    return "192.0.2.2";
  }
  readonly localPort = 6;

  write(chunk: Uint8Array, offset: number, length: number): number {
    const sent = Math.min(length, this.room);
    this.room -= sent;
    this.writes.push(chunk);
    const taken = new TextDecoder().decode(chunk.subarray(offset, offset + Math.max(sent, 0)));
    if (taken !== "") this.log.push(`"${taken}"`);
    return sent;
  }
  shutdown(): void {
    this.log.push("shutdown");
  }
  end(): void {
    this.log.push("end");
    this.data.closed(undefined);
  }
  terminate(): void {
    this.log.push("terminate");
    this.data.closed(undefined);
  }
  pause(): void {
    this.log.push("pause");
  }
  resume(): void {
    this.log.push("resume");
  }
  setKeepAlive(on: boolean, delayMs: number): void {
    this.log.push(`keep alive ${on} ${delayMs}`);
  }
}

function setUp() {
  const socket = new FakeSocket();
  const { log } = socket;
  const connection = new BunConnection(socket as unknown as BunSocket);
  connection.events = logEvents(log);
  return { socket, connection, log };
}

const bytes = (text: string) => new TextEncoder().encode(text);
const turn = () => new Promise<void>((resolve) => queueMicrotask(resolve));

type Act = (parts: ReturnType<typeof setUp>) => unknown;

function unsent({ socket, connection }: ReturnType<typeof setUp>): void {
  socket.room = 0;
  connection.give(bytes("u"));
}

const STATES: Readonly<Record<string, Act>> = {
  open: () => {},
  joined: ({ connection }) => connection.write(bytes("j")),
  unsent,
  halved: ({ connection }) => connection.end(),
  halving: (parts) => [unsent(parts), parts.connection.end()],
  closing: (parts) => [unsent(parts), parts.connection.close()],
  ended: ({ connection }) => connection.peerEnded(),
  closed: (parts) => [unsent(parts), parts.connection.closed(undefined)],
};

const ACTS: Readonly<Record<string, Act>> = {
  write: ({ connection, log }) => connection.write(bytes("w")) || log.push("stop"),
  give: ({ connection, log }) => connection.give(bytes("g")) || log.push("stop"),
  end: ({ connection }) => connection.end(),
  close: ({ connection }) => connection.close(),
  reset: ({ connection }) => connection.reset(),
  pause: ({ connection }) => connection.pause(),
  resume: ({ connection }) => connection.resume(),
  received: ({ connection }) => connection.received(bytes("r")),
  peerEnded: ({ connection }) => connection.peerEnded(),
  drained({ socket, connection }) {
    socket.room = Infinity;
    connection.drained();
  },
  closed: ({ connection }) => connection.closed(undefined),
  cut: ({ connection }) => connection.closed(new Error("ECONNRESET")),
  broke: ({ connection }) => connection.broke(new Error("broken")),
};

const TABLE = `
          | open             | joined           | unsent           | halved           | halving          | closing          | ended            | closed
write     | "w"              | "jw"             | stop             |                  |                  |                  | "w"              |
give      | "g"              | "jg"             | stop             |                  |                  |                  | "g"              |
end       | shutdown         | "j" shutdown     |                  |                  |                  |                  | end >close       |
close     | end >close       | "j" end >close   |                  | end >close       |                  |                  | end >close       |
reset     | terminate >close | terminate >close | terminate >close | terminate >close | terminate >close | terminate >close | terminate >close |
pause     | pause            | pause "j"        | pause            | pause            | pause            | pause            | pause            |
resume    | resume           | resume "j"       | resume           | resume           | resume           | resume           | resume           |
received  | >r               | >r "j"           | >r               | >r               | >r               | >r               | >r               |
peerEnded | >end             | >end "j"         | >end             | >end             | >end             | >end             |                  |
drained   |                  | "j"              | "u" >drain       |                  | "u" shutdown     | "u" end >close   |                  |
closed    | >close           | >reset           | >reset           | >end >close      | >reset           | >reset           | >close           |
cut       | >reset           | >reset           | >reset           | >reset           | >reset           | >reset           | >reset           |
broke     | terminate >reset | terminate >reset | terminate >reset | terminate >reset | terminate >reset | terminate >reset | terminate >reset |
`;

testEachEvent("BunConnection", TABLE, { setUp, states: STATES, events: ACTS, turn });

test("BunConnection sends the writes of one turn at once, and given chunks as they are", async () => {
  const { socket, connection, log } = setUp();
  for (const text of ["a", "b", "c"]) assert.equal(connection.write(bytes(text)), true);
  await turn();
  assert.deepEqual(log, ['"abc"']);
  const given = bytes("given");
  connection.give(given);
  assert.equal(socket.writes[1], given);
});

test("BunConnection reports a drain once, and only after a write that returned false", async () => {
  const { socket, connection, log } = setUp();
  socket.room = 1;
  assert.equal(connection.write(bytes("ab")), true);
  await turn();
  socket.room = 1;
  connection.drained();
  assert.deepEqual(log.splice(0), ['"a"', '"b"']);
  socket.room = 0;
  assert.equal(connection.give(bytes("c")), false);
  assert.equal(connection.write(bytes("d")), false);
  socket.room = 2;
  connection.drained();
  assert.deepEqual(log.splice(0), ['"c"', '"d"', ">drain"]);
  socket.room = 0;
  connection.write(bytes("e"));
  await turn();
  socket.room = 1;
  connection.drained();
  assert.deepEqual(log, ['"e"']);
});

test("BunConnection sends in order if the kernel takes pieces, and nothing while it takes nothing", () => {
  const { socket, connection, log } = setUp();
  socket.room = 1;
  connection.give(bytes("abc"));
  for (const room of [0, -1, 1, Infinity]) {
    socket.room = room;
    connection.drained();
  }
  assert.deepEqual(log, ['"a"', '"b"', '"c"', ">drain"]);
});

test("BunConnection keeps nothing for a closed socket before its close event", () => {
  const { socket, connection, log } = setUp();
  socket.room = -1;
  assert.equal(connection.give(bytes("a")), true);
  connection.closed(undefined);
  assert.deepEqual(log, [">close"]);
});

test("BunConnection reports the peer's TLS alert with the close", () => {
  const { connection, log } = setUp();
  connection.broke(
    new Error("error:10000412:SSL routines:OPENSSL_internal:SSLV3_ALERT_BAD_CERTIFICATE"),
  );
  assert.match(log.join(), /^terminate,>resetthe peer does not accept our certificate$/);
});

test("BunConnection reads its addresses once", () => {
  const { socket, connection } = setUp();
  for (let times = 0; times < 2; times++) {
    assert.deepEqual([connection.remote, connection.local], ["192.0.2.1:5", "192.0.2.2:6"]);
  }
  assert.equal(socket.looks, 2);
});

for (
  const [host, probed] of [
    ["192.0.2.1:5", true],
    ["2001:db8::1", true],
    ["127.0.0.1:5", false],
    ["[::1]:5", false],
    ["::1", false],
    ["localhost", false],
    ["localhost.example", true],
    ["unix", false],
  ] as const
) {
  test(`keepAlive() ${probed ? "has" : "does not have"} ${host} probed`, () => {
    const { socket, log } = setUp();
    keepAlive(socket as unknown as BunSocket, host);
    assert.deepEqual(log, probed ? ["keep alive true 15000"] : []);
  });
}

test("give() does not keep a large read in memory for a small part that the kernel did not take", () => {
  const { socket, connection } = setUp();
  const read = new Uint8Array(1_000).fill(65);
  socket.room = 100;
  connection.give(read.subarray(0, 300));
  connection.give(read.subarray(300, 800));
  socket.room = Infinity;
  connection.drained();
  const kept = socket.writes.slice(1).map(({ buffer }) => buffer.byteLength);
  assert.deepEqual(kept, [200, 1_000]);
});
