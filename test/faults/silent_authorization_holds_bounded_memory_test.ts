/**
 * Bodies that wait for a service which does not say whether they may pass: real memory stays within the
 * limits of `docs/limits.md`, however many clients send them.
 *
 * @module
 */

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { startServer } from "../kit/wire/echo.ts";
import { startFilePair } from "../kit/mesh/file_pair.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import { residentBytes } from "../kit/process/memory.ts";
import { eventually, pause } from "../kit/process/process.ts";

const BODY = new Uint8Array(1 << 20).fill(120);
const UPLOADS = 240;
const CALLERS = 24;
const LIMIT_BYTES = 320 * 1024 * 1024;
const HEAD = "POST / HTTP/1.1\r\nHost: db\r\n";

for (const framing of ["length", "chunked"] as const) {
  test(`bodies of a ${framing} that a silent service is asked about take bounded memory`, async () => {
    await using silent = await startServer((socket) => void socket.pause());
    await using app = await startRawOrigin(() => answerOf("ok"));
    const config = {
      httpService: { target: `${silent.host}:${silent.port}`, timeoutMs: 8_000 },
      withRequestBody: { maxRequestBytes: BODY.length },
    };
    await using pair = await startFilePair({
      protocol: "http",
      apps: [{ host: "127.0.0.1", port: app.port }],
      upstream: { plugins: [{ use: "ext_authz", config }] },
    });
    const { pid } = pair.web;
    const before = await residentBytes(pid);
    const sockets: Socket[] = [];
    let refused = 0;
    let grown = 0;
    try {
      for (let at = 0; at < UPLOADS; at++) {
        const localAddress = `127.0.1.${1 + at % CALLERS}`;
        const socket = connect({
          host: pair.upstream.host,
          port: pair.upstream.port,
          localAddress,
        });
        sockets.push(socket);
        socket.on("error", () => {}).once("data", () => void refused++);
        upload(socket, framing);
      }
      await eventually("what is too much is refused", async () => {
        grown = Math.max(grown, await residentBytes(pid) - before);
        await pause(10);
        return refused >= UPLOADS * 2 / 3;
      });
      assert.ok(grown < LIMIT_BYTES, `it grew by ${Math.round(grown / 1e6)} MB`);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });
}

function upload(socket: Socket, framing: "length" | "chunked"): void {
  if (framing === "length") {
    socket.write(`${HEAD}Content-Length: ${BODY.length}\r\n\r\n`);
    return void socket.write(BODY);
  }
  socket.write(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`);
  for (let at = 0; at < BODY.length; at += 16_384) {
    socket.write("4000\r\n");
    socket.write(BODY.subarray(at, at + 16_384));
    socket.write("\r\n");
  }
  socket.write("0\r\n\r\n");
}
