/**
 * A changed L7 intention applies to the next request on an open connection, and to those that are under
 * way.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Intention, Permission } from "../../src/policy/mod.ts";
import type { HttpRules, Snapshot } from "../../src/snapshot/mod.ts";
import { answerOf, RawClient, startRawOrigin, statusOf, valuesOf } from "../kit/wire/http_raw.ts";
import { openWebSocket, startWebSocketEcho } from "../kit/wire/http_websocket.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import { httpRules, intention, policyOf } from "../kit/engine/snapshots.ts";

function judged(localPort: number, intentions: readonly Intention[], rules?: Partial<HttpRules>) {
  return startPathPair({
    localPort,
    intentions,
    inbound: { http: httpRules("http", rules) },
    upstream: { http: httpRules("http") },
  });
}

/** `web` may send the requests of these permissions. */
function webMay(...permissions: readonly Partial<Permission>[]): Intention {
  return {
    ...intention("web", "permissions"),
    permissions: permissions.map((permission) => ({
      action: "allow",
      methods: [],
      headers: [],
      ...permission,
    })),
  };
}

const READS: Partial<Permission> = { path: { kind: "prefix", value: "/read/" }, methods: ["GET"] };
const dbOf = (pair: PathPair) => ({ host: "127.0.0.1", port: pair.port });
const judgeAnew = (pair: PathPair, ...intentions: readonly Intention[]) =>
  pair.db.set({ ...pair.dbSnapshot, policy: policyOf(intentions) } as Snapshot);

async function statusFor(client: RawClient, line: string): Promise<number> {
  client.send(`${line} HTTP/1.1\r\nHost: db\r\n\r\n`);
  return statusOf(await client.response());
}

test("each request of a connection is judged by its method and its normal path", async () => {
  await using origin = await startRawOrigin();
  await using pair = await judged(origin.port, [webMay(READS)]);
  await using client = await RawClient.open(dbOf(pair));
  assert.equal(await statusFor(client, "GET /read/a"), 200);
  assert.equal(await statusFor(client, "GET /read/../admin"), 403);
  assert.equal(await statusFor(client, "DELETE /read/a"), 403);
  assert.equal(await statusFor(client, "GET /%72ead/b"), 200);
  assert.deepEqual(origin.requests.map(({ head }) => head.split(" ")[1]), ["/read/a", "/read/b"]);
  const { fields } = await pair.line(({ fields }) => fields.path === "/admin");
  assert.equal(fields.code, "intention_denied");
  assert.match(String(fields.rule), /web/);
});

test("a change is in force for the next request on an open connection", async () => {
  await using origin = await startRawOrigin();
  await using pair = await judged(origin.port, [intention("web", "allow")]);
  await using client = await RawClient.open(dbOf(pair));
  assert.equal(await statusFor(client, "GET /"), 200);
  await judgeAnew(pair, intention("web", "deny"));
  assert.equal(await statusFor(client, "GET /"), 403);
  await judgeAnew(pair, webMay(READS));
  assert.equal(await statusFor(client, "GET /"), 403);
  assert.equal(await statusFor(client, "GET /read/1"), 200);
});

test("a denied caller sees the code, and the rule only where the listener permits it", async () => {
  await using origin = await startRawOrigin();
  const written = {
    off: [],
    code: ["intention_denied"],
    rule: ["intention_denied default/web => test (deny)"],
  };
  for (const showDenials of ["off", "code", "rule"] as const) {
    await using pair = await judged(origin.port, [intention("web", "deny")], { showDenials });
    const answer = await RawClient.ask(dbOf(pair), "GET / HTTP/1.1\r\nHost: db\r\n\r\n");
    assert.equal(answer.body, "RBAC: access denied");
    const shown = valuesOf(answer, "x-postern-denied-by");
    assert.deepEqual(shown, written[showDenials]);
  }
});

test("a request that is under way when it is denied is cut", async () => {
  const begun = Promise.withResolvers<void>();
  await using origin = await startRawOrigin((_request, socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    begun.resolve();
    return undefined;
  });
  await using pair = await judged(origin.port, [intention("web", "allow")]);
  await using client = await RawClient.open(dbOf(pair));
  client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  await begun.promise;
  await client.bytes(20);
  await judgeAnew(pair, intention("web", "deny"));
  const { rest } = await client.ended();
  assert.match(rest, /half$/);
});

test("a request that waits for its answer when it is denied gets a 403", async () => {
  const asked = Promise.withResolvers<void>();
  await using origin = await startRawOrigin(() => void asked.resolve());
  await using pair = await judged(origin.port, [intention("web", "allow")]);
  await using client = await RawClient.open(dbOf(pair));
  client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  await asked.promise;
  await judgeAnew(pair, intention("web", "deny"));
  assert.equal(statusOf(await client.response()), 403);
});

test("a WebSocket that is denied is cut, and one that is not goes on", async () => {
  await using origin = await startWebSocketEcho();
  await using pair = await judged(origin.port, [intention("web", "allow")]);
  await using socket = await openWebSocket(dbOf(pair), "/read/live");
  socket.send(new Uint8Array([1, 2, 3]));
  assert.deepEqual([...await socket.next() ?? []], [1, 2, 3]);
  await judgeAnew(pair, webMay(READS));
  socket.send(new Uint8Array([4]));
  assert.deepEqual([...await socket.next() ?? []], [4]);
  await judgeAnew(pair, webMay({ ...READS, action: "deny" }));
  assert.equal(await socket.next(), undefined);
});

test("a caller outside the mesh fails its handshake, and no agent is asked", async () => {
  await using origin = await startRawOrigin(() => answerOf("ok"));
  await using pair = await judged(origin.port, [intention("*", "allow")]);
  await using client = await RawClient.open({ host: "127.0.0.1", port: pair.db.port() });
  client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  await client.ended();
  assert.equal(origin.requests.length, 0);
});
