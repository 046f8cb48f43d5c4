import test from "node:test";
import assert from "node:assert/strict";
import { startConsul } from "../kit/consul.ts";
import { EchoClient, waitForEcho, waitForRefusal } from "../kit/echo.ts";
import { startPair } from "../kit/mesh.ts";
import { deadline, pause } from "../kit/process.ts";
import { within } from "../kit/starvation.ts";

const HELLO = new TextEncoder().encode("hello");

test("a denied connection that is open closes within a second, each time", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startPair(agent, { tokens: true });
  await waitForEcho(pair.upstream);

  const { web, db } = pair.posterns;
  const pids = [server.pid, agent.pid, web.pid, db.pid];
  // The agent's authorize call and bare cached reads freeze within 8 changes: go past that.
  for (let round = 1; round <= 10; round++) {
    const open = await EchoClient.open(pair.upstream);
    await open.exchange(HELLO);
    await server.intention("web", "db", "deny");
    await within(1_000, { what: `round ${round}: it is closed`, pids }, () => over(open));
    open.destroy();
    await waitForRefusal(pair.upstream);
    await server.intention("web", "db", "allow");
    await within(2_000, { what: `round ${round}: it is let in`, pids }, () => {
      return waitForEcho(pair.upstream);
    });
  }
});

test("a removed intention leaves the default, deny, to open connections", async () => {
  await using server = await startConsul({ acl: true });
  await using pair = await startPair(server, { tokens: true });
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);
  await server.intention("web", "db", undefined);
  await over(open);
  open.destroy();
  await waitForRefusal(pair.upstream);
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

async function over(open: EchoClient): Promise<void> {
  assert.ok(await deadline(open.over, 30_000), "it is open after 30 s");
}
