import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryEngine } from "../../../../../test/kit/engine/memory_engine.ts";
import { FakeClock, settle } from "../../../../../test/kit/clock/clock.ts";
import { checkLocal } from "./own_health.ts";

const ADDRESS = { kind: "tcp", host: "127.0.0.1", port: 8080 } as const;

function start(httpPath = "", address: Parameters<typeof checkLocal>[0]["address"] = ADDRESS) {
  const [engine, clock, stop] = [new MemoryEngine(), new FakeClock(), new AbortController()];
  const health = checkLocal({ address, httpPath }, { engine, clock, signal: stop.signal });
  const [dial] = engine.dials;
  assert.ok(dial);
  return { health, dial, clock, stop };
}

test("checkLocal() passes at a connection, and closes it", async () => {
  const { health, dial, clock } = start();
  const end = dial.connect();
  assert.deepEqual(await health, { status: "passing", output: "127.0.0.1:8080: connected" });
  assert.equal(clock.pending, 0);
  await settle();
  assert.equal(end.over, "end");
  assert.equal(end.received, "");
});

test("checkLocal() is critical where the connection is refused", async () => {
  const { health, dial } = start();
  dial.fail("refused");
  assert.deepEqual(await health, { status: "critical", output: "127.0.0.1:8080: refused" });
});

for (
  const [pieces, want, output] of [
    [["HTTP/1.1 200 OK\r\n"], "passing", "status 200"],
    [["HTTP/1.", "1 20", "4", " No Content\r\n\r\n"], "passing", "status 204"],
    [["HTTP/1.0 299\r\n"], "passing", "status 299"],
    [["HTTP/1.1 429 Too Many Requests\r\n"], "warning", "status 429"],
    [["HTTP/1.1 302 Found\r\n"], "critical", "status 302"],
    [["HTTP/1.1 503 Service Unavailable\r\n"], "critical", "status 503"],
    [["220 mail ESMTP\r\n"], "critical", "no HTTP"],
    [["x".repeat(600), "x".repeat(600)], "critical", "no HTTP"],
    [["HTTP/1.1 2000 \r\n"], "critical", "no HTTP"],
  ] as const
) {
  test(`checkLocal() reads ${pieces.join("|").slice(0, 40).trim()} as ${want}`, async () => {
    const { health, dial } = start("/health");
    const end = dial.connect();
    await settle();
    assert.match(end.received, /^GET \/health HTTP\/1\.1\r\nHost: 127\.0\.0\.1:8080\r\n/);
    for (const piece of pieces) {
      end.send(piece);
      await settle();
    }
    const got = await health;
    assert.deepEqual(got, { status: want, output: `GET /health of 127.0.0.1:8080: ${output}` });
    await settle();
    assert.equal(end.over, "reset", "the rest of the answer is not read");
  });
}

test("checkLocal() connects to a unix socket", async () => {
  const { health, dial } = start("/", { kind: "unix", path: "/run/app.sock" });
  const end = dial.connect();
  await settle();
  assert.match(end.received, /\r\nHost: localhost\r\n/);
  end.send("HTTP/1.1 200 OK\r\n");
  assert.equal((await health).status, "passing");
});

test("checkLocal() is critical without a response, and where the connection ends before it", async () => {
  const silent = start("/");
  silent.dial.connect();
  await silent.clock.advance(5_000);
  assert.match((await silent.health).output, /no answer in 5000 ms/);

  const never = start("/");
  await never.clock.advance(5_000);
  assert.equal((await never.health).status, "critical");
  assert.equal(never.dial.cancelled, true);

  const ended = start("/");
  ended.dial.connect().connection.end();
  assert.match((await ended.health).output, /closed without an answer/);

  const stopped = start("/");
  stopped.stop.abort();
  assert.equal((await stopped.health).status, "critical");
});
