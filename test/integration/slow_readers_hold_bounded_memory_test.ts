import assert from "node:assert/strict";
import { test } from "node:test";
import { heldByThread } from "../../src/http/mod.ts";
import { RawClient, startRawOrigin, statusOf } from "../kit/http_raw.ts";
import { startPathPair } from "../kit/path_pair.ts";
import { httpRules } from "../kit/snapshots.ts";

test("while slow readers hold most of the memory for them, new requests are refused with 503", async () => {
  await using origin = await startRawOrigin();
  await using pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: httpRules("http") },
    upstream: { http: httpRules("http") },
  });
  const ask = () =>
    RawClient.ask({ host: "127.0.0.1", port: pair.port }, "GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  assert.equal(statusOf(await ask()), 200);
  const size = 60 * 1024 * 1024;
  assert.ok(heldByThread.take(size));
  try {
    assert.equal(statusOf(await ask()), 503);
    const { fields } = await pair.line(({ fields }) => fields.code === "overloaded");
    assert.match(String(fields.reason), /read slowly/);
  } finally {
    heldByThread.release(size);
  }
  assert.equal(statusOf(await ask()), 200);
});
