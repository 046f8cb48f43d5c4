import test from "node:test";
import assert from "node:assert/strict";
import { startConsul } from "../kit/consul.ts";
import { EchoClient, expectRefused, waitForEcho } from "../kit/echo.ts";
import { startPair } from "../kit/mesh.ts";
import { deadline, pause } from "../kit/process.ts";

const HELLO = new TextEncoder().encode("hello");

test("a denied connection that is open closes within a second, each time", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startPair(agent, { tokens: true });
  await waitForEcho(pair.upstream);

  // The agent's authorize call and bare cached reads freeze within 8 changes: go past that.
  for (let round = 1; round <= 10; round++) {
    const open = await EchoClient.open(pair.upstream);
    await open.exchange(HELLO);
    await server.intention("web", "db", "deny");
    const written = performance.now();
    const closed = await deadline(open.over, 1_500);
    assert.ok(closed !== undefined, `round ${round}: still open 1.5 s after the deny`);
    assert.ok(closed - written <= 1_000, `round ${round}: closed after ${closed - written} ms`);
    open.destroy();
    await expectRefused(pair.upstream);
    await server.intention("web", "db", "allow");
    await waitForEcho(pair.upstream, { timeoutMs: 2_000 });
  }
});

test("a removed intention leaves the default, deny, to open connections", async () => {
  await using server = await startConsul({ acl: true });
  await using pair = await startPair(server, { tokens: true });
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);
  await server.intention("web", "db", undefined);
  assert.ok(await deadline(open.over, 1_500), "still open without any intention");
  open.destroy();
  await expectRefused(pair.upstream);
});

test("a change that still allows leaves open connections alone", async () => {
  await using server = await startConsul({ acl: true });
  await using pair = await startPair(server, { tokens: true });
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);
  await server.intention("*", "db", "deny");
  await server.intention("other", "db", "deny");
  // Long enough for a wrong verdict to have been carried out.
  await pause(1_500);
  await open.exchange(HELLO);
  await open.finish();
});
