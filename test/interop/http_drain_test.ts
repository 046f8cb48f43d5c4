/**
 * A sidecar that is stopped under clients that people use: all of them finish what they have begun, and who
 * goes on does so elsewhere.
 *
 * @module
 */

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import test from "node:test";
import { peer } from "../../scripts/peers.ts";
import { assertExactlyOnce, HttpLoad } from "../kit/wire/http_load.ts";
import { startCountingOrigin } from "../kit/wire/http_origin.ts";
import { startFilePair } from "../kit/mesh/file_pair.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import { startPipe } from "../kit/process/pipe.ts";
import { eventually, Process } from "../kit/process/process.ts";

const LIMIT = { timeoutMs: 60_000 };
const HTTP2_REQUESTS = 50_000;
const HTTP1_REQUESTS = 5_000;
const CURL_REQUESTS = 1_500;

for (const protocol of ["http", "http2"] as const) {
  test(`${protocol}: clients of a sidecar that is stopped under load lose no request`, async () => {
    await using origin = await startCountingOrigin({ protocol });
    await using old = await startFilePair({ protocol, apps: [origin] });
    await using next = await startFilePair({ protocol, apps: [origin] });
    let place = old.upstream;
    await using front = await startPipe(() =>
      connect({ ...place, allowHalfOpen: true, noDelay: true })
    );
    const url = `http://${front.host}:${front.port}`;
    const h2load = (...args: readonly string[]) =>
      new Process(peer("h2load"), ["-t", "1", "-c", "4", ...args]);
    await using http2 = h2load("-m", "10", "-n", String(HTTP2_REQUESTS), `${url}/h2load`);
    await using http1 = h2load("--h1", "-n", String(HTTP1_REQUESTS), `${url}/h1`);
    await using curl = new Process(peer("curl"), [
      ...["-sS", "--http1.1", "-o", "/dev/null", "-w", "%{http_code} %{num_connects}\\n"],
      `${url}/[1-${CURL_REQUESTS}]`,
    ]);
    await using load = new HttpLoad(front, origin.counts, { shortLived: 0, http2: 2 });
    await eventually("some requests", () => load.result.exchanges >= 100);
    place = next.upstream;
    const stopped = await old.web.stop();
    assert.equal(stopped.code, 0);
    const result = await load.stop();
    const repeated = result.repeated.filter((path) => path.startsWith("/load/"));
    assertExactlyOnce({ ...result, repeated }, { atLeast: 100 });
    // The client sends no more requests once it gets GOAWAY; those that have begun are answered.
    await http2.waitExit(LIMIT);
    const succeeded = Number(/ (\d+) succeeded/.exec(http2.output)?.[1]);
    assert.equal(succeeded, origin.counts.timesOf("/h2load"), http2.output);
    assert.ok(succeeded < HTTP2_REQUESTS, "it had finished before");
    assert.equal((await http1.waitExit(LIMIT)).code, 0);
    assert.match(http1.output, new RegExp(`${HTTP1_REQUESTS} succeeded, 0 failed`));
    assert.equal((await curl.waitExit(LIMIT)).code, 0);
    const lines = curl.output.trim().split("\n");
    assert.deepEqual([lines.length, [...new Set(lines)]], [CURL_REQUESTS, ["200 1", "200 0"]]);
    assert.equal(lines.filter((line) => line === "200 1").length, 2, "one connection to each");
  });
}

test("an HTTP/2 client gets two GOAWAY frames and its response", async () => {
  const asked = Promise.withResolvers<Socket>();
  await using origin = await startRawOrigin((_request, socket) => {
    asked.resolve(socket);
    return undefined;
  });
  await using pair = await startFilePair({ protocol: "http", apps: [origin] });
  const { host, port } = pair.upstream;
  await using nghttp = new Process(peer("nghttp"), ["-v", `http://${host}:${port}/`]);
  const socket = await asked.promise;
  pair.web.kill("SIGTERM");
  const goaways = await nghttp.waitFor(/last_stream_id=(\d+)[^]*last_stream_id=(\d+)/, LIMIT);
  assert.equal(goaways[1], String(2 ** 31 - 1));
  socket.end(answerOf("late"));
  assert.equal((await nghttp.waitExit(LIMIT)).code, 0);
  assert.match(nghttp.output, /:status: 200[^]*late/);
  assert.equal((await pair.web.process.exited).code, 0);
});
