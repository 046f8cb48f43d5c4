import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import { test } from "node:test";
import type { DataPath } from "../../src/proxy/mod.ts";
import { type Place, startServer } from "../kit/wire/echo.ts";
import { FRAME, RawHttp2Client } from "../kit/wire/http2_raw.ts";
import { startHttp2Server } from "../kit/wire/http2_server.ts";
import { answerOf, RawClient, statusOf } from "../kit/wire/http_raw.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import { httpRules } from "../kit/engine/snapshots.ts";

type Version = "http" | "http2";

const HELD_BYTES = 8 << 20;
const LARGE = "x".repeat(256 * 1024);
const STREAMS = 240;
const BODY = new Uint8Array(16_384);

/** Answers `/large` with much, other paths with `ok`, and takes no body sent to `/stuck`. */
async function startApp(version: Version): Promise<Place & AsyncDisposable> {
  if (version === "http2") {
    return await startHttp2Server({
      onRequest(exchange) {
        const { path } = exchange.request;
        if (path === "/stuck") return exchange.pause();
        exchange.respond({ status: 200, length: -1, fields: [] }, false);
        exchange.send(new Uint8Array(Buffer.from(path === "/large" ? LARGE : "ok")));
        exchange.end();
      },
    });
  }
  return await startServer((socket: Socket) => {
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      if (/^\S+ \/stuck/.test(text)) return void socket.pause();
      for (let end = text.indexOf("\r\n\r\n"); end >= 0; end = text.indexOf("\r\n\r\n")) {
        const isLarge = text.startsWith("GET /large");
        text = text.slice(end + 4);
        socket.write(answerOf(isLarge ? LARGE : "ok"));
      }
    });
  });
}

async function startPair({ port }: Place, version: Version): Promise<PathPair> {
  return await startPathPair({
    localPort: port,
    inbound: { http: httpRules(version) },
    upstream: { http: httpRules(version) },
    db: { heldBytes: HELD_BYTES },
    web: { heldBytes: HELD_BYTES },
  });
}

function valueOf(path: DataPath, name: string): number {
  return path.view({ connections: false }).samples.filter((sample) => sample.name === name)
    .reduce((sum, { value }) => sum + value, 0);
}

async function othersAreServed({ port }: PathPair, path: string): Promise<void> {
  const request = `GET ${path} HTTP/1.1\r\nHost: db\r\n\r\n`;
  const answer = await RawClient.ask({ host: "127.0.0.1", port }, request);
  assert.equal(statusOf(answer), 200, answer.body);
  assert.equal(answer.body, path === "/large" ? LARGE : "ok");
}

/** A connection has a half of it at most, and less after two seconds. */
function heldIsBounded({ web, db }: PathPair): void {
  const held = [web, db].map(({ path }) => valueOf(path, "held_bytes"));
  for (const bytes of held) assert.ok(bytes <= HELD_BYTES / 2, `${held} bytes are held`);
}

function fieldsOf(method: string, path: string) {
  return [[":method", method], [":scheme", "http"], [":path", path], [":authority", "db"]] as const;
}

for (const version of ["http", "http2"] as const) {
  test(`a caller that reads no response loses its own, and no other notices (${version})`, async () => {
    await using app = await startApp(version);
    await using pair = await startPair(app, version);
    const place = { host: "127.0.0.1", port: pair.port };
    // Under way all the time.
    await using slow = await RawClient.open(place);
    slow.send("GET /large HTTP/1.1\r\nHost: db\r\n\r\n");
    await slow.bytes(1);
    slow.socket.pause();
    await using greedy = await RawHttp2Client.open(place);
    // INITIAL_WINDOW_SIZE 0: it takes nothing.
    const payload = Uint8Array.of(0, 4, 0, 0, 0, 0);
    greedy.frame({ type: FRAME.settings, flags: 0, stream: 0, payload });
    for (let at = 0; at < STREAMS; at++) {
      greedy.headers(2 * at + 1, fieldsOf("GET", "/large"), true);
      if (at % 40 === 39) await othersAreServed(pair, "/large");
    }
    await greedy.until(() => greedy.frames.find(({ type }) => type === FRAME.rstStream));
    for (const path of ["/large", "/", "/large", "/"]) await othersAreServed(pair, path);
    heldIsBounded(pair);
    assert.ok(valueOf(pair.web.path, "held_bytes_stopped_total") > 0);
    const listener = pair.web.path.listeners().find(({ name }) => name.endsWith("/db"));
    assert.match(listener?.warnings.join() ?? "", /too many bytes waited in memory/);
    slow.socket.resume();
    assert.equal((await slow.response()).body, LARGE);
  });

  test(`uploads that an endpoint does not take cost their caller, and no other notices (${version})`, async () => {
    await using app = await startApp(version);
    await using pair = await startPair(app, version);
    const place = { host: "127.0.0.1", port: pair.port };
    await using greedy = await RawHttp2Client.open(place);
    const given = () =>
      greedy.frames.filter(({ type, stream }) => type === FRAME.windowUpdate && stream === 0)
        .reduce((sum, { payload }) => sum + payload.readUInt32BE(), 65_535);
    await greedy.until(() => given() > 65_535 ? true : undefined);
    for (let at = 0; at < STREAMS; at++) {
      // No more than it may: the window of its connection opens late.
      for (let turn = 0; turn < 3 && (at + 1) * 60_000 > given(); turn++) {
        await othersAreServed(pair, "/large");
      }
      if ((at + 1) * 60_000 > given()) break;
      const stream = 2 * at + 1;
      greedy.headers(stream, fieldsOf("POST", "/stuck"), false);
      for (let count = 0; count < 4; count++) {
        greedy.frame({ type: FRAME.data, flags: 0, stream, payload: BODY.subarray(0, 15_000) });
      }
    }
    for (const path of ["/large", "/", "/large", "/"]) await othersAreServed(pair, path);
    heldIsBounded(pair);
  });
}
