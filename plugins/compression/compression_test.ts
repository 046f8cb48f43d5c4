import assert from "node:assert/strict";
import { test } from "node:test";
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { hold, mount, ok, type RequestInit, status, type Step } from "../../src/kit/mod.ts";
import compression from "./compression.ts";

const TEXT = "as they were ".repeat(100);
const HTML = { "content-type": "text/html; charset=utf-8" };
const PAGE = status(200, HTML, TEXT);
const ASK = { headers: { "accept-encoding": "gzip" } };
const config = { codings: ["gzip"] };

const pageWith = (headers: Readonly<Record<string, string>>) =>
  status(200, { ...HTML, ...headers }, TEXT);

test("compression shortens a page", async () => {
  const fields = { "etag": '"a"', "accept-ranges": "bytes", "vary": "Accept" };
  await using it = await mount(compression, { config, upstream: [pageWith(fields)] });
  const { headers, bytes } = await it.request(ASK);
  assert.deepEqual([...headers], [
    ["content-type", "text/html; charset=utf-8"],
    ["etag", 'W/"a"'],
    ["vary", "Accept"],
    ["vary", "accept-encoding"],
    ["content-encoding", "gzip"],
  ]);
  assert.equal(gunzipSync(bytes).toString(), TEXT);
  assert.equal(it.stat("responses", { coding: "gzip" }), 1);
});

test("compression leaves a weak ETag and a complete Vary unchanged", async () => {
  for (const vary of ["Accept-Encoding, Origin", "*"]) {
    const upstream = [pageWith({ etag: 'W/"a"', vary })];
    await using it = await mount(compression, { config, upstream });
    const { headers } = await it.request(ASK);
    assert.deepEqual([headers.get("etag"), headers.all("vary")], ['W/"a"', [vary]]);
    assert.equal(headers.get("content-encoding"), "gzip");
  }
});

for (
  const [coding, decoded] of Object.entries({
    gzip: gunzipSync,
    br: brotliDecompressSync,
    zstd: zstdDecompressSync,
  })
) {
  test(`compression by ${coding} compresses bodies without a length, too`, async () => {
    const upstream = [status(200, HTML, TEXT, TEXT)];
    await using it = await mount(compression, { config: { codings: [coding] }, upstream });
    const { headers, bytes } = await it.request({ headers: { "accept-encoding": coding } });
    assert.equal(headers.get("content-encoding"), coding);
    assert.equal(decoded(bytes).toString(), TEXT + TEXT);
  });
}

for (
  const [what, request, step] of [
    ["for HEAD", { ...ASK, method: "HEAD" }, PAGE],
    ["if the caller forbids it", {
      headers: { ...ASK.headers, "cache-control": "max-age=0, no-transform" },
    }, PAGE],
    ["if the application forbids it", ASK, pageWith({ "cache-control": "No-Transform" })],
    ["twice", ASK, pageWith({ "content-encoding": "br" })],
    ["of a range", ASK, status(206, HTML, TEXT)],
    ["with a range", ASK, pageWith({ "content-range": "bytes 0-1/2" })],
    ["with a sum of its bytes", ASK, pageWith({ "content-digest": "sha-256=:YQ==:" })],
    ["with 304", ASK, status(304, HTML, TEXT)],
    ["with 204", ASK, status(204, HTML, TEXT)],
    ["that is short", ASK, status(200, HTML, "short")],
    ["without a body", ASK, status(200, HTML)],
    ["with trailers", ASK, pageWith({ trailer: "server-timing" })],
    ["that is an upgrade", ASK, status(101, HTML, TEXT)],
    ["of another type", ASK, pageWith({ "content-type": "image/png" })],
    ["of no type", ASK, ok(TEXT)],
  ] as readonly (readonly [string, RequestInit, Step & { headers: Record<string, string> }])[]
) {
  test(`compression does not compress ${what}`, async () => {
    await using it = await mount(compression, { config, upstream: [step] });
    const { headers } = await it.request(request);
    assert.deepEqual(Object.fromEntries(headers), step.headers);
  });
}

test("compression adds Vary to uncompressed responses", async () => {
  await using it = await mount(compression, { config, upstream: [PAGE] });
  const { headers, body } = await it.request();
  assert.deepEqual([...headers].slice(1), [["vary", "accept-encoding"]]);
  assert.equal(body, TEXT);
});

test("compression compresses only configured types and lengths", async () => {
  const coding = async (type: string, body: string) => {
    const upstream = [status(200, { "content-type": type }, body)];
    const limited = { ...config, contentTypes: ["text/x"], minBytes: 2 };
    await using it = await mount(compression, { config: limited, upstream });
    return (await it.request(ASK)).headers.get("content-encoding");
  };
  assert.deepEqual(
    [await coding("Text/X", "ab"), await coding("text/x", "a"), await coding("text/html", TEXT)],
    ["gzip", undefined, undefined],
  );
});

test("compression is limited to so many responses at once, each until its exchange ends", async () => {
  const held = hold();
  await using it = await mount(compression, { config, upstream: [held] });
  const ask = async (count: number) => {
    const pending = Array.from({ length: count }, () => it.request(ASK));
    held.answer(PAGE);
    const answers = await Promise.all(pending);
    return answers.filter(({ headers }) => headers.get("content-encoding") === "gzip").length;
  };
  assert.deepEqual([await ask(130), it.stat("responses", { coding: "too_many" })], [128, 2]);
  assert.equal(await ask(1), 1);
});

for (
  const [config, reason] of [
    [{ codings: [] }, /config\.codings/],
    [{ codings: ["deflate"] }, /config\.codings\[0\]/],
    [{ contentTypes: ["application/grpc"] }, /contentTypes\[0\]: is never compressed/],
    [{ contentTypes: ["application/grpc+proto"] }, /contentTypes\[0\]: is never compressed/],
    [{ contentTypes: ["html"] }, /contentTypes\[0\]: is no type/],
    [{ minBytes: 0 }, /config\.minBytes/],
    [{ level: 9 }, /config\.level/],
  ] as const
) {
  test(`compression refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(mount(compression, { config }), reason);
  });
}
