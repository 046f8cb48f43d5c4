import assert from "node:assert/strict";
import { test } from "node:test";
import { escapeUnseen, maskUserinfo, printable } from "./printable.ts";

for (
  const [text, want] of [
    ["http://user:password@127.0.0.1:8500", "http://(not shown)@127.0.0.1:8500"],
    ['"https://user@host/x": no', '"https://(not shown)@host/x": no'],
    ["at http://a:p@ss/w?o#r'd\"@host: refused", "at http://(not shown)@host: refused"],
    ["user:password@host:8500", "(not shown)@host:8500"],
    ["addr=user:p/w@[::1]:80 b", "addr=(not shown)@[::1]:80 b"],
    ["http://a:b@c and http://d:e@f", "http://(not shown)@c and http://(not shown)@f"],
    ["http://(not shown)@host", "http://(not shown)@host"],
    ["mail ops@example.com", "mail ops@example.com"],
    ["spiffe://td/ns/x 10:30 a@b", "spiffe://td/ns/x 10:30 a@b"],
  ] as const
) {
  test(`maskUserinfo() of ${text}`, () => assert.equal(maskUserinfo(text), want));
}

test("escapeUnseen() leaves letters of every script, tabs and line feeds", () => {
  const text = "Grüße שלום 你好 👋\t\n";
  assert.equal(escapeUnseen(text), text);
});

test("escapeUnseen() escapes terminal controls and direction marks", () => {
  for (
    const [from, to] of [
      [0x00, 0x08],
      [0x0b, 0x1f],
      [0x7f, 0x9f],
      [0x61c, 0x61c],
      [0x200e, 0x200f],
      [0x2028, 0x202e],
      [0x2066, 0x2069],
    ] as const
  ) {
    for (let code = from; code <= to; code++) {
      const char = String.fromCharCode(code);
      assert.equal(escapeUnseen(`a${char}b`), `a\\u${code.toString(16).padStart(4, "0")}b`);
    }
  }
});

test("escapeUnseen() of JSON text is the same JSON", () => {
  const value = { "a\u202e": ["\u009b2J", "x\u2028y", "\u2066"] };
  const text = escapeUnseen(JSON.stringify(value, null, 2));
  assert.deepEqual(JSON.parse(text), value);
  assert.doesNotMatch(text, /[\u0080-\u2069]/);
});

for (const part of ["://", "=a:", "a://b:", '"x:']) {
  test(`maskUserinfo() takes linear time for many ${part}`, () => {
    const text = `@${part.repeat(30_000)}`;
    const started = performance.now();
    assert.equal(maskUserinfo(text), text);
    assert.ok(performance.now() - started < 2_000);
  });
}

test("printable() masks user information and escapes unseen characters", () => {
  assert.equal(printable("\x1b[2Jhttp://a:b@c"), "\\u001b[2Jhttp://(not shown)@c");
});
