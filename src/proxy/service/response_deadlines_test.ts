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
const SNAPSHOT = snapshotOf({
  ca: CA,
  service: "db",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  intentions: [intention("web", "allow")],
});
const GET = "GET / HTTP/1.1\r\nHost: db\r\n\r\n";
const POST = "POST / HTTP/1.1\r\nHost: db\r\nContent-Length: 4\r\n\r\n";
const TIMED_OUT = /^HTTP\/1\.1 504 .*\r\n\r\nupstream request timeout$/s;

/** An inbound listener with the plugin `timeout`. */
async function start(config: unknown) {
  const plugins = [{
    plugin: "timeout",
    config,
    onFailure: "refuse" as const,
    at: "inbound.plugins[0]",
  }];
  const path = await startMemoryPath(withInbound(SNAPSHOT, { http: httpRules("http"), plugins }));
  const caller = callAs("web", path, CA);
  const ask = (text: string) => sendThrough(caller, text, path);
  return { path, caller, ask };
}

test("the response timeout of a plugin begins at the end of the request", async () => {
  const { path, caller, ask } = await start({ requestTimeoutMs: 300 });
  await using _path = path;
  const app = await ask(`${POST}ab`);
  await path.clock.advance(60_000);
  assert.equal(caller.received, "");
  caller.send("cd");
  await settle();
  await path.clock.advance(290);
  assert.equal(caller.received, "");
  await path.clock.advance(110);
  assert.match(caller.received, TIMED_OUT);
  assert.notEqual(app.over, "no");
});

test("a gRPC caller gets status 14 at the response timeout", async () => {
  const { path, caller, ask } = await start({ requestTimeoutMs: 300 });
  await using _path = path;
  await ask(GET.replace("Host", "Content-Type: application/grpc\r\nHost"));
  await path.clock.advance(400);
  assert.match(caller.received, /^HTTP\/1\.1 200 .*grpc-status: 14\r\n/s);
});

test("a response that began within the response timeout has no further limit", async () => {
  const { path, caller, ask } = await start({ requestTimeoutMs: 300 });
  await using _path = path;
  const app = await ask(GET);
  app.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no");
  await settle();
  await path.clock.advance(60_000);
  app.send("k");
  await settle();
  assert.match(caller.received, /^HTTP\/1\.1 200 .*\r\n\r\nok$/s);
});

test("a connection upgraded within the response timeout has no further limit", async () => {
  const { path, caller, ask } = await start({ requestTimeoutMs: 300 });
  await using _path = path;
  const app = await ask("GET / HTTP/1.1\r\nHost: db\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n");
  app.send("HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n");
  await settle();
  await path.clock.advance(60_000);
  app.send("late");
  await settle();
  assert.match(caller.received, /^HTTP\/1\.1 101 .*\r\n\r\nlate$/s);
});

for (
  const [idleTimeoutMs, waitMs, answer, request = GET] of [
    [2_000, 5_000, /^HTTP\/1\.1 504 .*\r\n\r\nstream timeout$/s],
    // The caller is late, not the application.
    [2_000, 5_000, /^HTTP\/1\.1 408 .*\r\n\r\nstream timeout$/s, `${POST}ab`],
    // The limit of the listener is five minutes.
    [600_000, 400_000, /^$/],
    [0, 400_000, /^$/],
  ] as const
) {
  test(`the idle timeout of a plugin replaces the listener's: ${idleTimeoutMs} ms, ${answer}`, async () => {
    const { path, caller, ask } = await start({ idleTimeoutMs });
    await using _path = path;
    await ask(request);
    await path.clock.advance(waitMs);
    assert.match(caller.received, answer);
  });
}

test("a caller that does not complete its request within the idle timeout gets 408", async () => {
  const { path, caller, ask } = await start({ idleTimeoutMs: 2_000 });
  await using _path = path;
  await ask("POST / HTTP/1.1\r\nHost: db\r\nContent-Length: 9\r\n\r\na");
  await path.clock.advance(5_000);
  assert.match(caller.received, /^HTTP\/1\.1 408 .*stream timeout$/s);
});

test("an idle timeout shorter than the sweep interval is not cut short", async () => {
  const { path, caller, ask } = await start({ idleTimeoutMs: 500 });
  await using _path = path;
  await path.clock.advance(900);
  await ask(GET);
  await path.clock.advance(490);
  assert.equal(caller.received, "");
  await path.clock.advance(2_000);
  assert.match(caller.received, /^HTTP\/1\.1 504 /);
});
