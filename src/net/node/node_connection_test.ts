import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { test } from "node:test";
import { logEvents, testEachEvent } from "../../../test/kit/engine/event_table.ts";
import { NodeConnection } from "./node_connection.ts";

/** Passes bytes on when the test says so; reports its close a little later, like the runtime. */
class FakeSocket extends EventEmitter {
  readonly log: string[];
  readonly name: string;
  writableFinished = false;
  readonly _readableState = { ended: false };
  readonly _handle: object;
  /** Callbacks of writes, then that of the end. */
  readonly callbacks: (() => void)[] = [];
  readonly writes: Uint8Array[] = [];

  constructor(log: string[], name = "") {
    super();
    this.log = log;
    this.name = name;
    this._handle = {
      readStop: () => log.push(`${name}stop`),
      readStart: () => log.push(`${name}start`),
      emitEof: () => log.push("orderly"),
    };
  }
  write(chunk: Uint8Array, done: () => void): void {
    this.log.push(`"${chunk.length > 9 ? chunk.length : new TextDecoder().decode(chunk)}"`);
    this.writes.push(chunk);
    this.callbacks.push(done);
  }
  end(done?: () => void): void {
    this.log.push("end");
    if (done) this.callbacks.push(done);
  }
  pause(): void {
    this.log.push(`${this.name}pause`);
  }
  resume(): void {
    this.log.push(`${this.name}resume`);
  }
  setKeepAlive(on: boolean, delayMs: number): void {
    this.log.push(`${this.name}keep alive ${on} ${delayMs}`);
  }
  destroy(): void {
    this.#over("destroy");
  }
  resetAndDestroy(): void {
    this.#over("reset");
  }
  #destroyed = false;
  #over(how: string): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    this.log.push(`${this.name}${how}`);
    queueMicrotask(() => this.emit("close", false));
  }
}

function setUp(kind: "plain" | "tls" = "plain") {
  const log: string[] = [];
  const socket = new FakeSocket(log);
  const raw = kind === "tls" ? new FakeSocket(log, "raw ") : socket;
  const connection = new NodeConnection(socket as unknown as Socket, {
    remote: "192.0.2.1:5",
    raw: raw as unknown as Socket,
  });
  connection.events = logEvents(log);
  return { socket, raw, connection, log };
}

const bytes = (text: string) => new TextEncoder().encode(text);
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

type Act = (parts: ReturnType<typeof setUp>) => unknown;

const full: Act = ({ connection }) => connection.give(new Uint8Array(256 * 1024));

const STATES: Readonly<Record<string, Act>> = {
  open: () => {},
  joined: ({ connection }) => connection.write(bytes("j")),
  full,
  halved: ({ connection }) => connection.end(),
  halving: (parts) => [full(parts), parts.connection.end()],
  closing: ({ connection }) => connection.close(),
  ended: ({ socket }) => socket.emit("end"),
  paused: ({ connection }) => connection.pause(),
  held: ({ connection, socket }) => [connection.pause(), socket.emit("data", bytes("h"))],
  closed: ({ socket }) => socket.emit("close", false),
};

const ACTS: Readonly<Record<string, Act>> = {
  write: ({ connection, log }) => connection.write(bytes("w")) || log.push("full"),
  give: ({ connection, log }) => connection.give(bytes("g")) || log.push("full"),
  end: ({ connection }) => connection.end(),
  close: ({ connection }) => connection.close(),
  reset: ({ connection }) => connection.reset(),
  pause: ({ connection }) => connection.pause(),
  resume: ({ connection }) => connection.resume(),
  data: ({ socket }) => socket.emit("data", bytes("r")),
  peerEnd: ({ socket }) => socket.emit("end"),
  sent: ({ socket }) => socket.callbacks.splice(0).map((done) => done()),
  gone: ({ socket }) => socket.emit("close", false),
  cut: ({ socket }) => socket.emit("close", true),
  error: ({ socket }) => socket.emit("error", new Error("broken")),
};

const TABLE = `
        | open         | joined       | full         | halved       | halving      | closing        | ended        | paused       | held         | closed
write   | "w"          | "jw"         | full "w"     |              |              |                | "w"          | "w"          | "w"          |
give    | "g"          | "jg"         | "g" full     |              |              |                | "g"          | "g"          | "g"          |
end     | end          | "j" end      | end          |              |              |                | end          | end          | end          |
close   | end          | "j" end      | end          | end          | end          | end            | end          | end          | end          |
reset   | reset >close | reset >close | reset >close | reset >close | reset >close | reset >close   | reset >close | reset >close | reset >close |
pause   | pause        | pause "j"    | pause        | pause        | pause        | pause          | pause        |              |              |
resume  |              | "j"          |              |              |              |                |              | resume       | resume >h    |
data    | >r           | >r "j"       | >r           | >r           | >r           | >r             | >r           |              |              |
peerEnd | >end         | >end "j"     | >end         | >end         | >end         | >end           |              |              |              |
sent    |              | "j"          | >drain       |              |              | destroy >close |              |              |              |
gone    | >close       | >close       | >close       | >close       | >close       | >close         | >close       | >close       | >close       |
cut     | >reset       | >reset       | >reset       | >reset       | >reset       | >reset         | >reset       | >reset       | >reset       |
error   | reset >reset | reset >reset | reset >reset | reset >reset | reset >reset | reset >reset   | reset >reset | reset >reset | reset >reset |
`;

testEachEvent("NodeConnection", TABLE, { setUp, states: STATES, events: ACTS, turn });

test("NodeConnection stops its caller at 256 KiB and reports a drain below half of that", () => {
  const { socket, connection, log } = setUp();
  const half = 128 * 1024;
  connection.give(bytes("0"));
  socket.callbacks.shift()?.();
  assert.ok(!log.includes(">drain"));
  assert.equal(connection.give(new Uint8Array(half)), true);
  assert.equal(connection.give(new Uint8Array(half - 1)), true);
  assert.equal(connection.give(bytes("1")), false);
  const [first, second, third] = socket.callbacks;
  log.length = 0;
  first?.();
  assert.deepEqual(log, []);
  second?.();
  assert.deepEqual(log, [">drain"]);
  third?.();
  assert.deepEqual(log, [">drain"]);
});

test("NodeConnection sends a copy of joined bytes", async () => {
  const { connection, log } = setUp();
  const chunk = bytes("a");
  connection.write(chunk);
  chunk[0] = 0x62;
  await turn();
  assert.equal(log.at(-1), '"a"');
});

test("NodeConnection joins again after a full buffer was sent", async () => {
  const { connection, log } = setUp();
  log.length = 0;
  for (let index = 0; index < 5; index++) connection.write(new Uint8Array(15_000));
  assert.deepEqual(log, ['"60000"']);
  await turn();
  assert.deepEqual(log, ['"60000"', '"15000"']);
});

test("NodeConnection takes nothing after a reset", async () => {
  const { connection, log } = setUp();
  connection.reset();
  connection.write(bytes("late"));
  connection.give(bytes("late"));
  connection.end();
  await turn();
  assert.deepEqual(log.slice(1), ["reset", ">close"]);
});

test("NodeConnection delivers held chunks one by one, then the end", async () => {
  const { socket, connection, log } = setUp();
  connection.pause();
  for (const text of ["a", "b"]) socket.emit("data", bytes(text));
  socket.emit("end");
  log.length = 0;
  const { onData } = connection.events;
  connection.events.onData = (chunk) => [onData(chunk), connection.pause()];
  for (const want of [["resume", ">a", "pause"], ["resume", ">b", "pause"], ["resume", ">end"]]) {
    connection.resume();
    await turn();
    assert.deepEqual(log.splice(0), want);
  }
});

test("NodeConnection delivers held chunks before new ones", async () => {
  const { socket, connection, log } = setUp();
  connection.pause();
  socket.emit("data", bytes("a"));
  connection.resume();
  socket.emit("data", bytes("b"));
  await turn();
  assert.deepEqual(log.slice(-2), [">a", ">b"]);
});

test("NodeConnection reports no end after it broke", async () => {
  const { socket, connection, log } = setUp();
  connection.pause();
  socket.emit("end");
  socket.emit("error", new Error("broken"));
  connection.resume();
  await turn();
  assert.deepEqual(log.filter((entry) => entry.startsWith(">")), [">reset"]);
});

test("NodeConnection closes at once if our half has been sent", async () => {
  const { socket, connection, log } = setUp();
  socket.writableFinished = true;
  connection.close();
  await turn();
  assert.deepEqual(log.slice(-2), ["destroy", ">close"]);
});

const TLS: readonly (readonly [name: string, act: Act, log: readonly string[]])[] = [
  ["has its transport probed", () => {}, []],
  [
    "stops and starts its transport",
    ({ connection }) => [connection.pause(), connection.resume()],
    ["raw stop", "raw start"],
  ],
  [
    "resets its transport and goes itself",
    ({ connection }) => connection.reset(),
    ["raw reset", "destroy", ">close"],
  ],
  [
    "breaks with a record that cannot be read, in the words of the first fault",
    ({ socket }) => {
      socket.emit("_tlsError", new Error("received fatal alert: CertificateUnknown"));
      socket.emit("error", new Error("received fatal alert: UnknownCA"));
    },
    ["raw reset", "destroy", ">resetthe peer does not accept our certificate"],
  ],
  [
    "is cut where its transport ends first",
    ({ socket }) => (socket._handle as { emitEof(): void }).emitEof(),
    ["raw reset", "destroy", ">reset"],
  ],
  [
    "ends where its transport ends last",
    ({ socket }) => {
      socket._readableState.ended = true;
      (socket._handle as { emitEof(): void }).emitEof();
    },
    ["orderly"],
  ],
];

for (const [name, act, log] of TLS) {
  test(`NodeConnection over TLS ${name}`, async () => {
    const parts = setUp("tls");
    assert.equal(parts.connection.remote, "192.0.2.1:5");
    act(parts);
    await turn();
    assert.deepEqual(parts.log, ["raw keep alive true 15000", ...log]);
  });
}

test("give() does not keep a large read in memory for a small part of it that waits", () => {
  const { socket, connection } = setUp();
  const read = new Uint8Array(1_000);
  connection.give(read.subarray(0, 100));
  connection.give(read.subarray(100, 300));
  connection.give(read.subarray(300, 800));
  const kept = socket.writes.map(({ buffer }) => buffer.byteLength);
  assert.deepEqual(kept, [1_000, 200, 1_000]);
});
