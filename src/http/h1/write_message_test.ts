import assert from "node:assert/strict";
import { test } from "node:test";
import { latin1Text } from "../../../test/kit/wire/http1.ts";
import { memoryPair } from "../../../test/kit/engine/memory_pair.ts";
import type { Stream } from "../../net/mod.ts";
import { forgetReady, makeReady } from "../latin1.ts";
import { writeHead } from "./write_message.ts";

/** Larger than the initial memory for heads. */
const LONG = `Cert="${"A".repeat(40_000)}"`;
const HEAD =
  `GET / HTTP/1.1\r\nhost: db\r\nA: 1\r\nx: ${LONG}\r\nB:  \r\nx: ${LONG}\r\nown: 2\r\n\r\n`;
const FIELDS = ["a", "1", "A", "x", LONG, "x", "b", " ", "B", "x", LONG, "x"];

function written(fields: string[], first = "GET / HTTP/1.1"): string | undefined {
  const [stream] = memoryPair();
  let text: string | undefined;
  const writes: Stream = Object.assign(stream, {
    write(chunk: Uint8Array) {
      text = latin1Text(chunk);
      return true;
    },
  });
  const wrote = writeHead(writes, first, fields, "own: 2\r\n", "host: db");
  assert.equal(wrote, text === undefined ? undefined : true);
  return text;
}

for (const ready of [false, true]) {
  test(`writeHead() writes a long value${ready ? " that is ready" : ""}`, (t) => {
    if (ready) makeReady(LONG);
    t.after(() => forgetReady(LONG));
    assert.equal(written(FIELDS), HEAD);
    assert.equal(written(["a", "1", "A", "x", LONG, "x\r\ny"]), undefined);
    assert.equal(written(["a", "1\n", "A", "x", LONG, "x"]), undefined);
    assert.equal(written(["x", LONG, "x", "a", "\r", "A"]), undefined);
    assert.equal(written(["x", LONG, "x"], "GET /\n HTTP/1.1"), undefined);
  });
}

test("makeReady() ignores a value with an octet that a line must not have", (t) => {
  for (const end of ["\r", "\n", "\0", "\x7f", "\u0100"]) {
    const value = LONG + end;
    makeReady(value);
    t.after(() => forgetReady(value));
    assert.equal(written(["x", value, "x"]), undefined);
  }
});
