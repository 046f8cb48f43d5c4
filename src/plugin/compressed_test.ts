import assert from "node:assert/strict";
import { test } from "node:test";
import {
  brotliCompressSync,
  brotliDecompressSync,
  createBrotliDecompress,
  createGunzip,
  createZstdDecompress,
  deflateSync,
  gunzipSync,
  gzipSync,
  zstdCompressSync,
  zstdDecompressSync,
} from "node:zlib";
import { settle } from "../../test/kit/clock/clock.ts";
import { MADE_FAULTS } from "./body.ts";
import { type Coding, compressed, decompressed } from "./compressed.ts";

const READERS = {
  gzip: { all: gunzipSync, stream: createGunzip },
  br: { all: brotliDecompressSync, stream: createBrotliDecompress },
  zstd: { all: zstdDecompressSync, stream: createZstdDecompress },
};
const CODINGS = Object.keys(READERS) as readonly Coding[];
const bytes = (text: string) => new TextEncoder().encode(text);

/** Chunks one by one, each when it is pulled. */
function source(count: number, chunk: (index: number) => Uint8Array) {
  const reads = { pulls: 0, cancelled: "" };
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (reads.pulls === count) controller.close();
      else controller.enqueue(chunk(reads.pulls++));
    },
    cancel: (reason) => void (reads.cancelled = String(reason)),
  }, { highWaterMark: 0 });
  return { stream, reads };
}

for (const coding of CODINGS) {
  test(`compressed() by ${coding} is shorter, and decodes to the same text`, async () => {
    const { stream } = source(200, (index) => bytes(`line ${index % 7} of a page\n`.repeat(20)));
    const out = new Uint8Array(await new Response(compressed(stream, coding)).arrayBuffer());
    const text = READERS[coding].all(out).toString();
    assert.equal(text.length, Array.from({ length: 200 }).length * 20 * 17);
    assert.ok(out.length < text.length / 50, `${out.length}`);
  });

  test(`compressed() by ${coding} flushes when the source has no more yet`, async () => {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    const reader = compressed(readable, coding).getReader();
    const decoder = READERS[coding].stream();
    let text = "";
    decoder.on("data", (chunk) => text += chunk);
    for (const event of ["data: one\n\n", "data: two\n\n"]) {
      void writer.write(bytes(event));
      while (!text.endsWith(event)) {
        const { value } = await reader.read();
        await new Promise<void>((resolve) => decoder.write(value, () => resolve()));
      }
    }
    void writer.close();
    while (!(await reader.read()).done);
    assert.equal(text, "data: one\n\ndata: two\n\n");
    decoder.destroy();
  });

  test(`compressed() by ${coding} of an empty source is an empty body`, async () => {
    const out = await new Response(compressed(source(0, () => bytes("")).stream, coding)).bytes();
    assert.equal(READERS[coding].all(out).length, 0);
  });

  test(`compressed() by ${coding} reads no more than its reader pulls`, async () => {
    const { stream, reads } = source(
      1_000,
      () => crypto.getRandomValues(new Uint8Array(32 * 1024)),
    );
    const reader = compressed(stream, coding).getReader();
    assert.equal(reads.pulls, 0);
    for (let i = 0; i < 5; i++) await reader.read();
    const { pulls } = reads;
    assert.ok(pulls >= 2 && pulls <= 20, `${pulls}`);
    await settle();
    assert.equal(reads.pulls, pulls);
    await reader.cancel("enough");
    assert.equal(reads.cancelled, "enough");
  });
}

test("compressed() fails with its source, and for a source without bytes", async () => {
  const failing = new ReadableStream<Uint8Array>({
    start: (controller) => controller.error(new Error("oh no")),
  });
  await assert.rejects(compressed(failing, "gzip").getReader().read(), /oh no/);
  const wrong = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(5 as never),
  });
  await assert.rejects(compressed(wrong, "gzip").getReader().read(), /chunk/);
});

const WRITERS = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
};
const LIMIT = { limitBytes: 1_000_000, ...MADE_FAULTS };

for (
  const [coding, compress] of Object.entries(WRITERS) as [Coding | "deflate", typeof gzipSync][]
) {
  const text = "a line of a page\n".repeat(20_000);
  const packed = new Uint8Array(compress(text));
  const split = (size: number) => {
    const count = Math.ceil(packed.length / size);
    return source(count, (index) => packed.slice(index * size, (index + 1) * size));
  };

  test(`decompressed() by ${coding} is the text, from chunks of any size`, async () => {
    for (const size of [1, 7, packed.length]) {
      assert.equal(
        await new Response(decompressed(split(size).stream, coding, LIMIT)).text(),
        text,
      );
    }
  });

  test(`decompressed() by ${coding} ends at its limit, and reads no more`, async () => {
    const bomb = new Uint8Array(compress(new Uint8Array(4 * 1024 * 1024)));
    const { stream, reads } = source(1_000, () => bomb);
    const reading = new Response(decompressed(stream, coding, LIMIT)).bytes();
    await assert.rejects(reading, /more than 1000000 bytes when decompressed/);
    assert.ok(reads.pulls <= 20, `${reads.pulls}`);
    assert.match(reads.cancelled, /more than 1000000/);
  });

  test(`decompressed() by ${coding} fails for what is cut off or in another coding`, async () => {
    if (coding === "gzip" || coding === "deflate") {
      const cut = source(1, () => packed.slice(0, packed.length / 2 | 0));
      await assert.rejects(
        new Response(decompressed(cut.stream, coding, LIMIT)).bytes(),
        new RegExp(`not ${coding}`),
      );
    }
    const other = source(1, () => bytes("no compressed text at all, and long enough"));
    await assert.rejects(
      new Response(decompressed(other.stream, coding, LIMIT)).bytes(),
      new RegExp(`not ${coding}`),
    );
  });
}

test("decompressed() reads no more than its reader pulls, and fails with its source", async () => {
  const packed = new Uint8Array(gzipSync(crypto.getRandomValues(new Uint8Array(60_000))));
  const { stream, reads } = source(1_000, () => packed);
  const reader = decompressed(stream, "gzip", { ...LIMIT, limitBytes: 1e9 }).getReader();
  assert.equal(reads.pulls, 0);
  await reader.read();
  await settle();
  assert.ok(reads.pulls <= 8, `${reads.pulls}`);
  await reader.cancel("enough");
  assert.equal(reads.cancelled, "enough");
  const failing = new ReadableStream<Uint8Array>({
    start: (controller) => controller.error(new Error("oh no")),
  });
  await assert.rejects(decompressed(failing, "gzip", LIMIT).getReader().read(), /oh no/);
});
