import assert from "node:assert/strict";
import { test } from "node:test";
import { ignoredEvents } from "../port.ts";
import { BunConnection } from "./bun_connection.ts";
import type { BunSocket } from "./bun_types.ts";

/** What a connection asks of its socket, which takes as much as there is room for. */
class FakeSocket {
  data: unknown;
  room = Infinity;
  readonly writes: Uint8Array[] = [];
  readonly asked: string[] = [];

  write(chunk: Uint8Array, offset: number, length: number): number {
    const sent = Math.min(length, this.room);
    this.room -= sent;
    this.writes.push(chunk);
    this.asked.push(new TextDecoder().decode(chunk.subarray(offset, offset + sent)));
    return sent;
  }
  shutdown(): void {
    this.asked.push("(shutdown)");
  }
}

function setUp() {
  const socket = new FakeSocket();
  const connection = new BunConnection(socket as unknown as BunSocket, "fake");
  let drains = 0;
  connection.events = { ...ignoredEvents, onDrain: () => drains++ };
  return { socket, connection, drains: () => drains };
}

const bytes = (text: string) => new TextEncoder().encode(text);
const turn = () => new Promise<void>((resolve) => queueMicrotask(resolve));

test("BunConnection sends what one turn writes at once, and what is given as it is", async () => {
  const { socket, connection } = setUp();
  for (const text of ["a", "b", "c"]) assert.equal(connection.write(bytes(text)), true);
  await turn();
  assert.deepEqual(socket.asked, ["abc"]);
  const given = bytes("given");
  connection.give(given);
  assert.equal(socket.writes[1], given);
});

test("BunConnection ends behind what was written in the same turn", () => {
  const { socket, connection } = setUp();
  connection.write(bytes("a"));
  connection.end();
  connection.write(bytes("too late"));
  assert.deepEqual(socket.asked, ["a", "(shutdown)"]);
});

test("BunConnection tells only those of a drain whom it told to stop", async () => {
  const { socket, connection, drains } = setUp();
  socket.room = 1;
  assert.equal(connection.write(bytes("ab")), true);
  await turn();
  socket.room = 1;
  connection.drained();
  assert.equal(drains(), 0);
  assert.deepEqual(socket.asked, ["a", "b"]);
  socket.room = 0;
  assert.equal(connection.give(bytes("c")), false);
  assert.equal(connection.write(bytes("d")), false);
  socket.room = 2;
  connection.drained();
  assert.equal(drains(), 1);
  assert.deepEqual(socket.asked.slice(-2), ["c", "d"]);
});
