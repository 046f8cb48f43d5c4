import test from "node:test";
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { startConsul } from "../kit/mesh/consul.ts";
import { startServer } from "../kit/wire/echo.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { residentBytes } from "../kit/process/memory.ts";
import { eventually, pause } from "../kit/process/process.ts";

const CONNECTIONS = 30;
const CHUNK = new Uint8Array(65_536).fill(7);
/** Per connection and side: what runtime and TLS may hold, beside the kernel. */
const HELD_LIMIT_BYTES = 1_500_000;

test("an application that stops reading holds the caller back, in bounded memory", async () => {
  await expectBounded({
    app: (socket) => {
      socket.pause();
      return undefined;
    },
    caller: (socket) => new Sender(socket),
  });
});

test("a caller that stops reading holds the application back, in bounded memory", async () => {
  await expectBounded({
    app: (socket) => new Sender(socket),
    caller: (socket) => {
      socket.pause();
      return undefined;
    },
  });
});

interface Roles {
  readonly app: (socket: Socket) => Sender | undefined;
  readonly caller: (socket: Socket) => Sender | undefined;
}

async function expectBounded(roles: Roles): Promise<void> {
  const senders: Sender[] = [];
  let arrived = 0;
  const note = (sender: Sender | undefined) => {
    if (sender) senders.push(sender);
  };
  await using server = await startConsul();
  await using app = await startServer((socket) => {
    arrived++;
    note(roles.app(socket));
  }, { host: server.host });
  await using pair = await startMeshPair(server, { app });
  const { web, db } = pair;
  await pause(1_000);
  const before = [await residentBytes(web.pid), await residentBytes(db.pid)];
  const sockets: Socket[] = [];
  for (let i = 0; i < CONNECTIONS; i++) {
    const socket = connect({ host: pair.upstream.host, port: pair.upstream.port });
    socket.on("error", () => {});
    sockets.push(socket);
    note(roles.caller(socket));
  }
  try {
    await eventually("all connections came through", () => arrived === CONNECTIONS);
    const accepted = () => senders.reduce((sum, sender) => sum + sender.accepted, 0);
    // Until the kernel's buffers on the way are full, which takes a slow machine longer.
    const sent = await eventually("no more unread bytes are taken", async () => {
      const before = accepted();
      await pause(3_000);
      return accepted() === before && before;
    }, { timeoutMs: 60_000 });
    assert.ok(sent > CONNECTIONS * CHUNK.length, `only ${sent} bytes were taken in all`);
    for (const [i, postern] of [web, db].entries()) {
      const grown = await residentBytes(postern.pid) - (before[i] ?? 0);
      assert.ok(
        grown <= CONNECTIONS * HELD_LIMIT_BYTES,
        `${i === 0 ? "web" : "db"} grew by ${
          Math.round(grown / 1e6)
        } MB for ${CONNECTIONS} connections`,
      );
    }
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

/** Writes for as long as the socket takes it; counts what left this process. */
class Sender {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("error", () => {});
    const fill = () => {
      while (!socket.destroyed && socket.write(CHUNK));
    };
    socket.on("drain", fill);
    fill();
  }

  get accepted(): number {
    return this.#socket.bytesWritten - this.#socket.writableLength;
  }
}
