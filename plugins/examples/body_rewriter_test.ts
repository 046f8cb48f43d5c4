import assert from "node:assert/strict";
import { test } from "node:test";
import { mount, status } from "../../src/kit/mod.ts";
import bodyRewriter from "./body_rewriter.ts";

const CONFIG = { replace: { "http://db.internal": "https://db.example", "$1": "$&" } };
const PAGE = '<a href="http://db.internal/é">$1</a>';
const HTML = { "content-type": "Text/HTML; charset=utf-8" };
const CSS = { "content-type": "text/css" };

for (
  const [what, step, want] of [
    ["replaces texts", status(200, HTML, PAGE), '<a href="https://db.example/é">$&</a>'],
    ["does not change other types", status(200, CSS, PAGE), PAGE],
    [
      "does not change compressed pages",
      status(200, { ...HTML, "content-encoding": "br" }, PAGE),
      PAGE,
    ],
    ["does not change long pages", status(200, HTML, PAGE.padEnd(99)), PAGE.padEnd(99)],
    ["does not change a range", status(206, HTML, PAGE), PAGE],
    ["does not change pages of unknown length", status(200, HTML, PAGE, "."), `${PAGE}.`],
  ] as const
) {
  test(`body_rewriter ${what}`, async () => {
    const config = { ...CONFIG, limitBytes: 50 };
    await using it = await mount(bodyRewriter, { config, upstream: [step] });
    assert.equal((await it.request()).body, want);
  });
}

test("body_rewriter removes the ETag of a changed page", async () => {
  const upstream = [status(200, { ...HTML, etag: '"a"' }, PAGE)];
  await using it = await mount(bodyRewriter, { config: CONFIG, upstream });
  const { headers } = await it.request();
  assert.deepEqual([...headers].map(([name]) => name), ["content-type"]);
});

test("body_rewriter does not change bytes that are not UTF-8", async () => {
  const odd = new Uint8Array([0xff, 0x24, 0x31]);
  await using it = await mount(bodyRewriter, {
    config: CONFIG,
    upstream: [status(200, HTML, odd)],
  });
  assert.deepEqual((await it.request()).bytes, odd);
});
