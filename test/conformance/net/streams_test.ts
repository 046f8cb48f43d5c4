/**
 * The contract of a {@link Connection}, plain and TLS, on the runtime's own engine: whole bytes, each
 * half on its own, a reset is a reset, nothing after the close.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { engine, openPair, type Pair, quiet } from "./kit.ts";

/** `near` acts, `far` must notice; each story runs from either end. */
function both(
  pair: Pair,
  near: "client" | "server",
): { near: Pair["client"]; far: Pair["client"] } {
  return near === "client"
    ? { near: pair.client, far: pair.server }
    : { near: pair.server, far: pair.client };
}

for (const kind of ["plain", "tls"] as const) {
  for (const end of ["client", "server"] as const) {
    const name = `a ${kind} connection, from the ${end},`;

    test(`${name} carries bytes both ways`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      assert.equal(near.write("ping"), true);
      await far.received("ping");
      far.write("pong");
      await near.received("pong");
    });

    test(`${name} ends one half and goes on with the other`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      near.write("last words");
      near.connection.end();
      await far.event("end");
      assert.deepEqual(far.events, ["data", "end"]);
      assert.equal(far.text, "last words");
      far.write("still here");
      await near.received("still here");
      assert.deepEqual(near.events, ["data"]);
      far.connection.end();
      await Promise.all([near.over(), far.over()]);
      assert.deepEqual(near.events, ["data", "end", "close"]);
      assert.deepEqual(far.events, ["data", "end", "close"]);
    });

    test(`${name} ends after megabytes that a slow reader has not taken yet`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      far.connection.pause();
      const block = Buffer.alloc(4_000_000, "x");
      near.connection.write(block);
      near.connection.end();
      await quiet();
      assert.ok(far.size < block.length, `${far.size} bytes arrived while paused`);
      far.connection.resume();
      await far.event("end");
      assert.equal(far.size, block.length);
      assert.deepEqual(far.events, ["data", "end"]);
    });

    test(`${name} closes both halves after the written bytes`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      near.write("goodbye");
      near.connection.close();
      await far.event("end");
      assert.equal(far.text, "goodbye");
      far.connection.end();
      await Promise.all([near.over(), far.over()]);
      assert.equal(far.events.at(-1), "close");
      assert.equal(near.events.at(-1), "close");
    });

    test(`${name} passes a reset as a reset`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      near.write("hello");
      await far.received("hello");
      near.connection.reset();
      await Promise.all([near.over(), far.over()]);
      assert.deepEqual(far.events, ["data", "reset"]);
      assert.deepEqual(near.events, ["close"]);
    });

    test(`${name} passes a reset in the middle of bytes`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      let wrote = true;
      while (wrote) wrote = near.connection.write(Buffer.alloc(65_536));
      near.connection.reset();
      await far.over();
      assert.equal(far.events.at(-1), "reset");
      assert.ok(!far.events.includes("end"), "a cut stream was reported as ended");
    });

    test(`${name} reports a reset after the peer had ended its half`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      near.connection.end();
      await far.event("end");
      near.connection.reset();
      // Deno stops looking at a socket that has ended, until it is written to.
      const asking = engine.name.startsWith("bun")
        ? undefined
        : setInterval(() => far.write("anybody there?"), 10);
      await far.over().finally(() => clearInterval(asking));
      assert.deepEqual(far.events, ["end", "reset"]);
    });

    test(`${name} ignores calls after its close`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      near.connection.reset();
      await Promise.all([near.over(), far.over()]);
      for (const { connection, events } of [near, far]) {
        const before = [...events];
        assert.equal(connection.write(Buffer.from("late")), true);
        connection.pause();
        connection.resume();
        connection.end();
        connection.close();
        connection.reset();
        await quiet(5);
        assert.deepEqual(events, before);
      }
    });

    test(`${name} ignores bytes written after its end`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      near.write("first");
      near.connection.end();
      near.write("too late");
      await far.event("end");
      assert.equal(far.text, "first");
    });

    test(`${name} gives no data while paused, all of it afterwards`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      far.onChunk = () => far.connection.pause();
      for (let index = 0; index < 10; index++) near.connection.write(Buffer.alloc(100_000));
      let seen = 0;
      while (far.size < 1_000_000) {
        await far.until(() => far.size > seen, () => `${far.size} of 1000000 bytes`);
        seen = far.size;
        await quiet(2);
        assert.equal(far.size, seen, "data came while paused");
        far.connection.resume();
      }
    });

    test(`${name} gets no end while paused before the last bytes`, async () => {
      await using pair = await openPair(kind);
      const { near, far } = both(pair, end);
      far.connection.pause();
      near.write("all of it");
      near.connection.end();
      await quiet();
      assert.deepEqual(far.events, []);
      far.connection.resume();
      await far.event("end");
      assert.equal(far.text, "all of it");
    });
  }
}
