import assert from "node:assert/strict";
import { test } from "node:test";
import {
  brotliDecompressSync,
  createBrotliDecompress,
  createGunzip,
  createZstdDecompress,
  gunzipSync,
  zstdDecompressSync,
} from "node:zlib";
import { settle } from "../../test/kit/clock/clock.ts";
import { type Coding, compressed } from "./compressed.ts";

const READERS = {
  gzip: { all: gunzipSync, stream: createGunzip },
  br: { all: brotliDecompressSync, stream: createBrotliDecompress },
  zstd: { all: zstdDecompressSync, stream: createZstdDecompress },
};
const CODINGS = Object.keys(READERS) as readonly Coding[];
const bytes = (text: string) => new TextEncoder().encode(text);

/** Chunks one by one, as somebody asks for them. */
function source(count: number, chunk: (index: number) => Uint8Array) {
  const told = { asked: 0, cancelled: "" };
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (told.asked === count) controller.close();
      else controller.enqueue(chunk(told.asked++));
    },
    cancel: (reason) => void (told.cancelled = String(reason)),
  }, { highWaterMark: 0 });
  return { stream, told };
}

for (const coding of CODINGS) {
  test(`compressed() by ${coding} is less, and says the same`, async () => {
    const { stream } = source(200, (index) => bytes(`line ${index % 7} of a page\n`.repeat(20)));
    const out = new Uint8Array(await new Response(compressed(stream, coding)).arrayBuffer());
    const text = READERS[coding].all(out).toString();
    assert.equal(text.length, Array.from({ length: 200 }).length * 20 * 17);
    assert.ok(out.length < text.length / 50, `${out.length}`);
  });

  test(`compressed() by ${coding} pushes on what it has when more has to be waited for`, async () => {
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

  test(`compressed() by ${coding} of nothing is an empty body`, async () => {
    const out = await new Response(compressed(source(0, () => bytes("")).stream, coding)).bytes();
    assert.equal(READERS[coding].all(out).length, 0);
  });

  test(`compressed() by ${coding} reads no more than its reader wants`, async () => {
    const { stream, told } = source(1_000, () => crypto.getRandomValues(new Uint8Array(32 * 1024)));
    const reader = compressed(stream, coding).getReader();
    assert.equal(told.asked, 0);
    for (let i = 0; i < 5; i++) await reader.read();
    const { asked } = told;
    assert.ok(asked >= 2 && asked <= 20, `${asked}`);
    await settle();
    assert.equal(told.asked, asked);
    await reader.cancel("enough");
    assert.equal(told.cancelled, "enough");
  });
}

test("compressed() fails as its source does, and where that gives no bytes", async () => {
  const failing = new ReadableStream<Uint8Array>({
    start: (controller) => controller.error(new Error("oh no")),
  });
  await assert.rejects(compressed(failing, "gzip").getReader().read(), /oh no/);
  const wrong = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(5 as never),
  });
  await assert.rejects(compressed(wrong, "gzip").getReader().read(), /chunk/);
});
