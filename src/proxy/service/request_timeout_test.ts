import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { callAs, sendThrough } from "../../../test/kit/engine/memory_caller.ts";
import { startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";

const CA = createAuthority();
const SNAPSHOT = withInbound(
  snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow")],
  }),
  { http: { ...httpRules("http"), requestTimeoutMs: 300 } },
);
const POST = "POST / HTTP/1.1\r\nHost: db\r\nContent-Length: 4\r\n\r\n";
const TIMED_OUT = /^HTTP\/1\.1 504 .*\r\n\r\nupstream request timeout$/s;

async function start() {
  const path = await startMemoryPath(SNAPSHOT);
  const caller = callAs("web", path, CA);
  const ask = (text: string) => sendThrough(caller, text, path);
  return { path, caller, ask };
}

test("the request timeout begins at the end of the request", async () => {
  const { path, caller, ask } = await start();
  await using _path = path;
  await ask(`${POST}ab`);
  await path.clock.advance(60_000);
  assert.equal(caller.received, "");
  caller.send("cd");
  await settle();
  await path.clock.advance(290);
  assert.equal(caller.received, "");
  // Deadlines are checked at this interval.
  await path.clock.advance(110);
  assert.match(caller.received, TIMED_OUT);
});

test("the request timeout breaks off a response that is not complete", async () => {
  const { path, caller, ask } = await start();
  await using _path = path;
  const app = await ask("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  app.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  await settle();
  await path.clock.advance(1_000);
  assert.match(caller.received, /^HTTP\/1\.1 200 OK.*ok$/s);
  caller.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  await settle();
  app.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no");
  await path.clock.advance(1_000);
  assert.match(caller.received, /\r\n\r\no$/);
  assert.notEqual(caller.over, "no");
});

test("an upgraded request has no request timeout", async () => {
  const { path, caller, ask } = await start();
  await using _path = path;
  const app = await ask("GET / HTTP/1.1\r\nHost: db\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n");
  app.send("HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n");
  await settle();
  await path.clock.advance(5_000);
  app.send("late");
  await settle();
  assert.match(caller.received, /^HTTP\/1\.1 101 .*\r\n\r\nlate$/s);
});
