import assert from "node:assert/strict";
import { test } from "node:test";
import { type Ask, mountPlugin, type Script } from "../../test/kit/mounted_plugin.ts";
import compression from "./compression.ts";

const TEXT = "as they were ".repeat(100);
const PAGE: Script = { headers: { "content-type": "text/html; charset=utf-8" }, body: TEXT };
const ASK: Ask = { headers: { "accept-encoding": "gzip" } };
const GZIP = { codings: ["gzip"] };

async function plain(body: { stream(): ReadableStream<Uint8Array> } | null): Promise<string> {
  const stream = body?.stream() as ReadableStream<Uint8Array<ArrayBuffer>>;
  return await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).text();
}

test("compression makes less of a page", async () => {
  const it = await mountPlugin(compression, GZIP);
  const { headers, body } = await it.ask(ASK, {
    ...PAGE,
    headers: { ...PAGE.headers, "etag": '"a"', "accept-ranges": "bytes", "vary": "Accept" },
  });
  assert.deepEqual([...headers], [
    ["content-type", "text/html; charset=utf-8"],
    ["etag", 'W/"a"'],
    ["vary", "Accept"],
    ["vary", "accept-encoding"],
    ["content-encoding", "gzip"],
  ]);
  assert.equal(body?.length, null);
  assert.equal(await plain(body), TEXT);
  assert.equal(it.counted("responses"), 1);
});

test("compression leaves a weak ETag and a full Vary", async () => {
  const it = await mountPlugin(compression, GZIP);
  for (const vary of ["Accept-Encoding, Origin", "*"]) {
    const fields = { ...PAGE.headers, etag: 'W/"a"', vary };
    const { headers } = await it.ask(ASK, { ...PAGE, headers: fields });
    assert.deepEqual([headers.get("etag"), headers.all("vary")], ['W/"a"', [vary]]);
    assert.equal(headers.get("content-encoding"), "gzip");
  }
});

const stream = () => new Blob([TEXT]).stream();
const withHeader = (name: string, value: string) => ({
  ...PAGE,
  headers: { ...PAGE.headers, [name]: value },
});

for (
  const [what, request, script] of [
    ["for HEAD", { ...ASK, method: "HEAD" }, PAGE],
    ["where the caller forbids it", {
      headers: { ...ASK.headers, "cache-control": "max-age=0, no-transform" },
    }, PAGE],
    ["where the application forbids it", ASK, withHeader("cache-control", "No-Transform")],
    ["twice", ASK, withHeader("content-encoding", "br")],
    ["of a range", ASK, { ...PAGE, status: 206 }],
    ["with a range", ASK, withHeader("content-range", "bytes 0-1/2")],
    ["with a sum of its bytes", ASK, withHeader("content-digest", "sha-256=:YQ==:")],
    ["with 304", ASK, { ...PAGE, status: 304 }],
    ["with 204", ASK, { ...PAGE, status: 204 }],
    ["that is short", ASK, { ...PAGE, body: "short" }],
    ["without a body", ASK, { ...PAGE, body: "" }],
    ["of no known length", ASK, { ...PAGE, body: stream() }],
    ["of another type", ASK, withHeader("content-type", "image/png")],
    ["of no type", ASK, { body: TEXT }],
  ] as readonly (readonly [string, Ask, Script])[]
) {
  test(`compression leaves a response ${what} as it is`, async () => {
    const it = await mountPlugin(compression, GZIP);
    const { headers } = await it.ask(request, script);
    assert.deepEqual(Object.fromEntries(headers), script.headers ?? {});
  });
}

test("compression says that a response depends on what it was asked", async () => {
  const it = await mountPlugin(compression, GZIP);
  const { headers, body } = await it.ask({}, PAGE);
  assert.deepEqual([headers.get("vary"), headers.get("content-encoding")], [
    "accept-encoding",
    undefined,
  ]);
  assert.equal(body?.length, TEXT.length);
});

test("compression takes the types and lengths that it is told", async () => {
  const it = await mountPlugin(compression, {
    ...GZIP,
    contentTypes: ["text/x"],
    minBytes: 2,
  });
  const coding = async (type: string, body: string) => {
    const { headers } = await it.ask(ASK, { headers: { "content-type": type }, body });
    return headers.get("content-encoding");
  };
  assert.deepEqual(
    [await coding("Text/X", "ab"), await coding("text/x", "a"), await coding("text/html", TEXT)],
    ["gzip", undefined, undefined],
  );
});

test("compression stops at so many at once, which end with their exchanges", async () => {
  const it = await mountPlugin(compression, GZIP);
  const ends: (() => void)[] = [];
  const codings: (string | undefined)[] = [];
  for (let i = 0; i < 129; i++) {
    const { headers } = await it.ask({ ...ASK, holdEnd: (end) => ends.push(end) }, PAGE);
    codings.push(headers.get("content-encoding"));
  }
  assert.deepEqual(codings.slice(127), ["gzip", undefined]);
  ends[0]?.();
  const { headers } = await it.ask(ASK, PAGE);
  assert.equal(headers.get("content-encoding"), "gzip");
});

for (
  const [config, reason] of [
    [{ codings: [] }, /config\.codings/],
    [{ codings: ["deflate"] }, /config\.codings\[0\]/],
    [{ contentTypes: ["text/event-stream"] }, /contentTypes\[0\]: is never compressed/],
    [{ contentTypes: ["html"] }, /contentTypes\[0\]: is no type/],
    [{ minBytes: 0 }, /config\.minBytes/],
    [{ level: 9 }, /config\.level/],
  ] as const
) {
  test(`compression refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(mountPlugin(compression, config), reason);
  });
}
