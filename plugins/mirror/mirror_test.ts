import assert from "node:assert/strict";
import { test } from "node:test";
import { hold, mount, type MountOptions, ok, reset, settle, status } from "../../src/kit/mod.ts";
import mirror from "./mirror.ts";

function mirroring(config: object, options: MountOptions = {}) {
  return mount(mirror, {
    config: { target: "orders-next", ...config },
    callees: { "orders-next": [status(500, {}, "worse")] },
    upstream: [(request) => ok(`got ${request.body}`)],
    ...options,
  });
}

type Mirroring = Awaited<ReturnType<typeof mirroring>>;
const copiesOf = (it: Mirroring) => it.callees["orders-next"]?.requests ?? [];

for (
  const [what, body, got] of [
    ["with a body", "hello", "hello"],
    ["with a chunked body", ["he", "ll", "o"], "hello"],
    ["without a body", [], ""],
  ] as const
) {
  test(`mirror sends a copy of a request ${what}`, async () => {
    await using it = await mirroring({});
    const { status: code, body: answer } = await it.request({
      method: "PUT",
      path: "/a?b",
      authority: "orders.example:8080",
      body,
      headers: { "x-two": ["1", "2"], cookie: "c" },
    });
    assert.deepEqual([code, answer], [200, `got ${got}`]);
    await settle();
    const [copy, ...more] = copiesOf(it);
    assert.deepEqual([copy?.method, copy?.path, copy?.authority, copy?.body, more.length], [
      "PUT",
      "/a?b",
      "orders.example-shadow:8080",
      got,
      0,
    ]);
    assert.deepEqual([copy?.headers("x-two"), copy?.header("cookie")], [["1", "2"], "c"]);
    assert.equal(it.stat("copies", { result: "answered" }), 1);
  });
}

test("mirror adds -shadow to the host of a copy, except to an IPv6 address", async () => {
  await using it = await mirroring({});
  for (const authority of ["db", "db:80", "10.0.0.1:80", "[::1]:80"]) {
    await it.request({ authority });
  }
  const names = copiesOf(it).map(({ authority }) => authority);
  assert.deepEqual(names, ["db-shadow", "db-shadow:80", "10.0.0.1-shadow:80", "[::1]:80"]);
});

test("mirror copies the configured percentage of requests", async () => {
  let next = 0;
  const random = () => next++ % 100 / 100;
  await using it = await mirroring({ percent: 12 }, { random });
  for (let i = 0; i < 100; i++) await it.request();
  assert.equal(copiesOf(it).length, 12);
});

for (
  const [what, body] of [["with a length", "hello"], ["without a length", ["he", "llo"]]] as const
) {
  test(`mirror does not copy a body ${what} above the limit, and passes it on`, async () => {
    await using it = await mirroring({ limitBytes: 4 });
    assert.equal((await it.request({ method: "POST", body })).body, "got hello");
    await settle();
    assert.equal(copiesOf(it).length, 0);
    assert.equal(it.stat("copies", { result: "body" }), 1);
  });
}

test("mirror does not wait for responses to copies, and resets them at the timeout", async () => {
  await using it = await mirroring({ timeoutMs: 500 }, { callees: { "orders-next": [hold()] } });
  assert.equal((await it.request({ method: "POST", body: "a" })).status, 200);
  await settle();
  assert.equal(copiesOf(it)[0]?.isGivenUp, false);
  await it.clock.advance(500);
  assert.equal(copiesOf(it)[0]?.isGivenUp, true);
  assert.equal(it.stat("copies", { result: "failed" }), 1);
});

test("mirror does not fail a request whose copy is reset", async () => {
  await using it = await mirroring({}, { callees: { "orders-next": [reset()] } });
  assert.equal((await it.request({ method: "POST", body: "a" })).status, 200);
  await settle();
  assert.equal(it.stat("copies", { result: "failed" }), 1);
});

test("mirror limits concurrent copies, and sends more when some end", async () => {
  const held = hold();
  await using it = await mirroring({}, { callees: { "orders-next": [held] } });
  for (let i = 0; i < 130; i++) assert.equal((await it.request()).status, 200);
  await settle();
  assert.equal(copiesOf(it).length, 128);
  assert.equal(it.stat("copies", { result: "overflow" }), 2);
  held.answer(ok("done"));
  await settle();
  await it.request();
  await settle();
  assert.equal(copiesOf(it).length, 129);
});

test("mirror does not count requests of callers that left", async () => {
  await using it = await mirroring({}, { upstream: [...Array(200).fill(hold()), ok("fine")] });
  for (let i = 0; i < 200; i++) {
    const leaving = new AbortController();
    const pending = it.request({ signal: leaving.signal });
    await settle();
    leaving.abort();
    await pending;
  }
  await it.request();
  await settle();
  assert.equal(copiesOf(it).length, 1);
});

test("mirror refuses an unknown target", async () => {
  await assert.rejects(mirroring({ target: "nobody" }), /Cannot ask "nobody"/);
});
