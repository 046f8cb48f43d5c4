/**
 * Clients that people use, over either protocol, through pairs that speak either in the mesh and to the
 * application.
 *
 * @module
 */

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { peer } from "../../scripts/peers.ts";
import { assertExactlyOnce, HttpLoad } from "../kit/wire/http_load.ts";
import { startCountingOrigin } from "../kit/wire/http_origin.ts";
import { startFilePair } from "../kit/mesh/file_pair.ts";
import { answerOf, RawClient, startRawOrigin, statusOf, valuesOf } from "../kit/wire/http_raw.ts";
import { runToEnd } from "../kit/process/process.ts";

const BIG_BYTES = 4_000_000;
const LIMIT = { timeoutMs: 60_000 };

for (const protocol of ["http", "http2"] as const) {
  test(`curl, nghttp, h2load and wrk get their responses through a ${protocol} pair`, async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "postern-clients-"));
    await using own = new AsyncDisposableStack();
    own.defer(() => rm(directory, { recursive: true, force: true }));
    const origin = own.use(await startCountingOrigin({ protocol }));
    const { upstream } = own.use(await startFilePair({ protocol, apps: [origin] }));
    const url = `http://${upstream.host}:${upstream.port}/a/b?c=d`;
    const big = join(directory, "big");
    await writeFile(big, randomBytes(BIG_BYTES));
    const wanted = createHash("sha256").update(await readFile(big)).digest("hex");
    for (const version of ["--http1.1", "--http2-prior-knowledge"]) {
      await t.test(`curl ${version}`, async () => {
        const got = join(directory, "got");
        const curl = (...args: readonly string[]) =>
          runToEnd(peer("curl"), ["-sS", "--fail-with-body", version, ...args, url], LIMIT);
        // Large enough for `Expect: 100-continue`.
        await curl("--data-binary", `@${big}`, "-o", got);
        const hash = createHash("sha256").update(await readFile(got)).digest("hex");
        assert.equal(hash, wanted);
        // A body of unknown length.
        await curl("-T", "-", "-X", "POST", "-o", got);
        assert.equal((await readFile(got)).length, 0);
        assert.match(await curl("-I"), /^HTTP\/(1\.1|2) 200/);
      });
    }
    await t.test("nghttp", async () => {
      await runToEnd(peer("nghttp"), ["-n", "-d", big, url], LIMIT);
      const shown = await runToEnd(peer("nghttp"), ["-nv", "-m", "20", url], LIMIT);
      assert.equal(shown.match(/:status: 200/g)?.length, 20);
    });
    await t.test("h2load", async () => {
      for (const args of [["-m", "10"], ["--h1"]]) {
        const report = await runToEnd(
          peer("h2load"),
          ["-n", "3000", "-c", "5", "-t", "1", ...args, url],
          LIMIT,
        );
        assert.match(report, /3000 succeeded, 0 failed, 0 errored, 0 timeout/);
        assert.match(report, /3000 2xx, 0 3xx, 0 4xx, 0 5xx/);
      }
    });
    await t.test("wrk", async () => {
      const report = await runToEnd(
        peer("wrk"),
        ["-t", "1", "-c", "16", "-d", "2s", url],
        LIMIT,
      );
      assert.match(report, /requests in/);
      assert.doesNotMatch(report, /Socket errors|Non-2xx/);
    });
    await t.test("a load of both versions", async () => {
      const clients = { keptAlive: 4, shortLived: 2, http2: 2, pauseMs: 0 };
      const load = new HttpLoad(upstream, origin.counts, { ...clients, maxBodyBytes: 200_000 });
      const result = await load.stop({ atLeast: 500 });
      assertExactlyOnce({ ...result, repeated: [] }, { atLeast: 500 });
      const repeated = result.repeated.filter((path) => path.startsWith("/load/"));
      assert.deepEqual(repeated, []);
    });
  });
}

test("a response keeps its body headers, with or without a body", async (t) => {
  const answers: Readonly<Record<string, string>> = {
    "/204": "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
    "/304": "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    "/chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: u\r\n\r\n",
    "/early": `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${answerOf("ok")}`,
    "/head": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    "/twice": "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n",
  };
  await using origin = await startRawOrigin(({ head }) => answers[head.split(" ")[1] ?? ""] ?? "");
  await using pair = await startFilePair({ protocol: "http", apps: [origin] });
  const ask = async (path: string, method = "GET") => {
    await using client = await RawClient.open(pair.upstream);
    client.send(`${method} ${path} HTTP/1.1\r\nHost: db\r\n\r\n`);
    const first = await client.response({ to: method });
    return { client, first, next: statusOf(first) < 200 ? await client.response() : undefined };
  };
  await t.test("204 and 304 have none", async () => {
    assert.equal(statusOf((await ask("/204")).first), 204);
    const { first } = await ask("/304");
    assert.deepEqual([statusOf(first), first.body], [304, ""]);
  });
  await t.test("HEAD has the Content-Length of GET", async () => {
    const { first } = await ask("/head", "HEAD");
    assert.deepEqual(valuesOf(first, "content-length"), ["5"]);
  });
  await t.test("chunks stay chunks, trailers trailers", async () => {
    const { first } = await ask("/chunks");
    assert.deepEqual([first.body, first.trailers.toLowerCase()], ["ab", "t: u\r\n"]);
  });
  await t.test("early hints come before the response", async () => {
    const { first, next } = await ask("/early");
    assert.deepEqual([statusOf(first), next && statusOf(next)], [103, 200]);
  });
  await t.test("fields that stand twice stay two", async () => {
    assert.deepEqual(valuesOf((await ask("/twice")).first, "set-cookie"), ["a=1", "b=2"]);
  });
});

test("the application gets the caller's identity and the forwarding headers", async () => {
  await using origin = await startRawOrigin();
  await using pair = await startFilePair({ protocol: "http", apps: [origin] });
  await RawClient.ask(
    pair.upstream,
    "GET /a/../b//c?d HTTP/1.1\r\nHost: db:80\r\nX-Forwarded-For: 10.1.1.1\r\n" +
      "x_forwarded_client_cert: forged\r\nX-Envoy-Retry-On: 5xx\r\nConnection: x-secret\r\n" +
      "X-Secret: 1\r\nX-Forwarded-Client-Cert: Hash=forged\r\n\r\n",
  );
  const [request = { head: "" }] = origin.requests;
  assert.match(request.head, /^GET \/b\/\/c\?d HTTP\/1\.1\r\n/);
  assert.deepEqual(valuesOf(request, "host"), ["db:80"]);
  assert.deepEqual(valuesOf(request, "x-forwarded-for"), ["10.1.1.1"]);
  assert.deepEqual(valuesOf(request, "x-forwarded-proto"), ["http"]);
  assert.match(valuesOf(request, "x-request-id").join(), /^[0-9a-f-]{36}$/);
  const [cert = "", ...more] = valuesOf(request, "x-forwarded-client-cert");
  // Our outbound side removes the field when its application sends it.
  assert.match(cert, /^By=spiffe:\/\/[^;]*\/svc\/db;Hash=[0-9a-f]{64};Cert="-----BEGIN/);
  assert.match(cert, /;Subject="";URI=spiffe:\/\/[^;]*\/svc\/web$/);
  assert.deepEqual(more, []);
  for (const name of ["x_forwarded_client_cert", "x-envoy-retry-on", "x-secret"]) {
    assert.deepEqual(valuesOf(request, name), [], name);
  }
});
