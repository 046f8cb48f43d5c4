import assert from "node:assert/strict";
import { test } from "node:test";
import { codingFor } from "./accept_encoding.ts";

for (
  const [said, want] of [
    [[], undefined],
    [["gzip"], "gzip"],
    [["GZip , deflate"], "gzip"],
    [["deflate"], undefined],
    [["gzip, zstd"], "zstd"],
    [["gzip", "zstd;q=0.9"], "gzip"],
    [["gzip;q=0.5, zstd;q=0.4"], "gzip"],
    [["gzip;q=0"], undefined],
    [["gzip;q=0, *"], "zstd"],
    [["zstd;q=0, *;q=0.1"], "gzip"],
    [["*;q=0"], undefined],
    [["identity"], undefined],
    [["identity, gzip;q=0.5"], undefined],
    [["identity;q=0.5, gzip;q=0.5"], "gzip"],
    [["gzip;q=1.5"], undefined],
    [["gzip;q=x"], undefined],
    [["gzip; q=0.001"], "gzip"],
    [["gzip;level=1;q=0"], undefined],
    [[",;,"], undefined],
  ] as readonly (readonly [readonly string[], string | undefined])[]
) {
  test(`codingFor() ${JSON.stringify(said)} is ${want}`, () => {
    assert.equal(codingFor(said, ["zstd", "gzip"]), want);
  });
}
