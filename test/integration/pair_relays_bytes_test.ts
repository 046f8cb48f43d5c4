/**
 * Two sidecars, an app on each side: bytes pass unchanged, halves close on their own, a reset is
 * passed on, and a receiver that does not read stops the sender.
 *
 * @module
 */

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { openClient } from "../kit/engine/data_path.ts";
import { startEcho, startServer } from "../kit/wire/echo.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";

test("a pair relays a request and its reply", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await openClient(pair.port);
  client.send("hello");
  assert.equal(String(await client.read(5)), "hello");
});

test("a pair relays 40 MB both ways unchanged", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await openClient(pair.port);
  const block = randomBytes(1_000_003);
  const sent = createHash("sha256");
  const writing = (async () => {
    for (let index = 0; index < 40; index++) {
      sent.update(block);
      if (!client.socket.write(block)) {
        await new Promise((resolve) => client.socket.once("drain", resolve));
      }
    }
    client.socket.end();
  })();
  const received = createHash("sha256").update(await client.readAll());
  await writing;
  assert.equal(received.digest("hex"), sent.digest("hex"));
});

test("a pair keeps the half-closed direction open", async () => {
  await using server = await startServer((socket) => {
    let request = "";
    socket.on("data", (chunk) => request += chunk);
    socket.on("end", () => socket.end(`got ${request}`));
  });
  await using pair = await startPathPair({ localPort: server.port });
  await using client = await openClient(pair.port);
  client.socket.end("a whole request");
  assert.equal(String(await client.readAll()), "got a whole request");
});

test("a pair lets the server end first and the client go on", async () => {
  let finished = (_text: string) => {};
  const whole = new Promise<string>((resolve) => finished = resolve);
  await using server = await startServer((socket) => {
    let request = "";
    socket.end("goodbye");
    socket.on("data", (chunk) => request += chunk);
    socket.on("end", () => finished(request));
  });
  await using pair = await startPathPair({ localPort: server.port });
  await using client = await openClient(pair.port);
  assert.equal(String(await client.readAll()), "goodbye");
  client.socket.end("still here");
  assert.equal(await whole, "still here");
});

test("a pair passes a reset on as a reset", async () => {
  await using server = await startServer((socket) => {
    socket.once("data", () => socket.resetAndDestroy());
  });
  await using pair = await startPathPair({ localPort: server.port });
  await using client = await openClient(pair.port);
  client.send("break");
  assert.equal(await client.gone, "reset");
});

test("a pair passes the client's reset on to the server", async () => {
  let broken = (_error: boolean) => {};
  const gone = new Promise<boolean>((resolve) => broken = resolve);
  await using server = await startServer((socket) => {
    socket.on("data", (chunk) => socket.write(chunk));
    socket.on("error", () => broken(true));
    socket.on("end", () => broken(false));
  });
  await using pair = await startPathPair({ localPort: server.port });
  await using client = await openClient(pair.port);
  client.send("hello");
  await client.read(5);
  client.socket.resetAndDestroy();
  assert.equal(await gone, true);
});
