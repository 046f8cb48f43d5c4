/**
 * Ownership of a chunk, the same on every stream: a written chunk is the caller's again at once, a given
 * or received chunk changes hands for good. Chunks written in one turn leave together, in order.
 *
 * @module
 */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { test } from "node:test";
import { memoryPair } from "../../kit/engine/memory_pair.ts";
import { startServer } from "../../kit/wire/echo.ts";
import { dial, openPair, type Pair, quiet, SecureServer, Side, Waiting } from "./kit.ts";

type Kind = "plain" | "tls" | "memory";

function openStreams(kind: Kind): Promise<Pair> {
  if (kind !== "memory") return openPair(kind);
  const [client, server] = memoryPair().map((connection) => new Side(connection));
  assert.ok(client && server);
  return Promise.resolve({ client, server, async [Symbol.asyncDispose]() {} });
}

/** More than the kernel holds for a reader that rests; what repeats has no place in it. */
const SOURCE = randomBytes(10 * 1024 * 1024);
/** Joined, alone, and more than a turn holds; a prime number of them, so that none stays in step. */
const SIZES = [1, 700, 60_000, 40, 16_384, 5, 200_000, 9_000, 30, 1_500, 70_000, 2, 12_000];

/** Sends `source` through one buffer, which is overwritten as soon as the call has returned. */
function pour(
  side: Side,
  source: Uint8Array,
  pass: (chunk: Uint8Array, count: number) => boolean,
): void {
  const scratch = Buffer.alloc(200_000);
  let at = 0;
  let count = 0;
  const more = () => {
    for (let goOn = true; goOn && at < source.length;) {
      const size = Math.min(SIZES[count % SIZES.length] ?? 1, source.length - at);
      scratch.set(source.subarray(at, at + size));
      goOn = pass(scratch.subarray(0, size), count++);
      scratch.fill(0xee, 0, size);
      at += size;
    }
    if (at === source.length) side.connection.end();
  };
  side.onDrain = more;
  more();
}

/** Chunks were kept by reference all the while: received bytes do not change. */
function assertReceived({ chunks }: Side, source: Uint8Array): void {
  assert.ok(Buffer.concat(chunks).equals(source), "other bytes arrived");
}

for (const kind of ["plain", "tls", "memory"] as const) {
  for (const [reader, size] of [["quick", 1_000_000], ["slow", SOURCE.length]] as const) {
    test(`a ${kind} stream's writer has its memory back at once, with a ${reader} reader`, async () => {
      await using pair = await openStreams(kind);
      const { client, server } = pair;
      const source = SOURCE.subarray(0, size);
      if (reader === "slow") server.connection.pause();
      pour(client, source, (chunk) => client.connection.write(chunk));
      if (reader === "slow") await quiet(5);
      server.connection.resume();
      await server.event("end");
      assertReceived(server, source);
    });
  }

  test(`a ${kind} stream keeps the order of what is written and what is given`, async () => {
    await using pair = await openStreams(kind);
    const { client, server } = pair;
    server.connection.pause();
    pour(client, SOURCE, (chunk, count) => {
      if (count % 3 === 0) return client.connection.give(new Uint8Array(chunk));
      return client.connection.write(chunk);
    });
    await quiet(5);
    server.connection.resume();
    await server.event("end");
    assertReceived(server, SOURCE);
  });

  test(`a ${kind} stream sends chunks given from another stream unchanged`, async () => {
    await using first = await openStreams(kind);
    await using second = await openStreams(kind);
    const { server: from } = first;
    const { client: to } = second;
    const source = SOURCE.subarray(0, 1_000_000);
    from.onChunk = (chunk) => {
      if (!to.connection.give(chunk)) from.connection.pause();
    };
    to.onDrain = () => from.connection.resume();
    from.onEnd = () => to.connection.end();
    pour(first.client, source, (chunk) => first.client.connection.write(chunk));
    await second.server.event("end");
    assertReceived(second.server, source);
  });

  test(`a ${kind} stream ends after what was written in the same turn`, async () => {
    for (const how of ["end", "close"] as const) {
      await using pair = await openStreams(kind);
      const { client, server } = pair;
      client.write("one ");
      client.write("two");
      client.connection[how]();
      client.write("too late");
      client.connection.give(Buffer.from("too late"));
      await server.event("end");
      assert.equal(server.text, "one two");
    }
  });

  test(`a ${kind} stream that is reset sends nothing of its turn`, async () => {
    await using pair = await openStreams(kind);
    const { client, server } = pair;
    client.write("never said");
    client.connection.reset();
    client.write("nor this");
    await server.over();
    assert.equal(server.text, "");
    assert.deepEqual(server.events, ["reset"]);
  });

  test(`a ${kind} stream may be written to while it is paused`, async () => {
    await using pair = await openStreams(kind);
    const { client, server } = pair;
    client.connection.pause();
    client.write("still ");
    client.write("here");
    await server.received("still here");
  });
}

/**
 * Sizes of the application data records that a TLS server sends to a client, recorded as they pass.
 */
class Tap extends Waiting {
  readonly records: number[] = [];
  #bytes = Buffer.alloc(0);

  passed(chunk: Uint8Array): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    while (this.#bytes.length >= 5) {
      const size = this.#bytes.readUInt16BE(3);
      if (this.#bytes.length < 5 + size) break;
      if (this.#bytes[0] === 0x17) this.records.push(size);
      this.#bytes = this.#bytes.subarray(5 + size);
    }
    this.woken();
  }
}

for (
  const [name, answer] of [
    ["in the callback of what came", (side: Side, write: () => void) => side.onChunk = write],
    ["in a promise of that callback", (side: Side, write: () => void) => {
      side.onChunk = () => void Promise.resolve().then(write);
    }],
    ["in a timer", (side: Side, write: () => void) => {
      side.onChunk = () => void setTimeout(write, 0);
    }],
  ] as const
) {
  test(`a batch written ${name} leaves as one record`, async () => {
    await using server = await SecureServer.start();
    const tap = new Tap();
    await using wire = await startServer((toClient) => {
      const toServer = connect(server.port, "127.0.0.1");
      toServer.on("error", () => {});
      toServer.on("close", () => toClient.destroy());
      toClient.on("data", (chunk) => toServer.write(chunk));
      toClient.on("close", () => toServer.destroy());
      toServer.on("data", (chunk: Buffer) => {
        tap.passed(chunk);
        toClient.write(chunk);
      });
    });
    const client = await dial(wire.port).side();
    const side = await server.side();
    // Tickets have passed before it.
    side.write("ready");
    await client.received("ready");
    const before = tap.records.length;
    answer(side, () => {
      for (let index = 0; index < 50; index++) side.write("answer ");
    });
    client.write("question");
    await client.received(`ready${"answer ".repeat(50)}`);
    assert.equal(tap.records.length - before, 1, `${tap.records}`);
  });
}
