import test from "node:test";
import { type Consul, startConsul } from "../kit/consul.ts";
import { EchoClient, waitForEcho, waitForRefusal } from "../kit/echo.ts";
import { Load } from "../kit/load.ts";
import { type Pair, startPair, waitForPassing } from "../kit/mesh.ts";
import { deadline, pause } from "../kit/process.ts";

// Registered as most are, with Consul's default checks: an agent that comes back holds all of them
// critical until each has run again, up to ten seconds later.
const AFTER_MS = 12_000;

test("an agent that is away for 60 s is not missed, and is followed again afterwards", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startPair(agent, { tokens: true, defaultChecks: true });
  await waitForPassing(agent, "db");
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream, { pauseMs: 25 });
  await pause(1_000);
  await agent.stop("SIGKILL");
  await pause(60_000);
  await agent.start();
  await pause(AFTER_MS);
  pair.expectFlawless(await load.stop({ atLeast: 1_000 }), { atLeast: 1_000 });
  await expectFollowed(server, pair);
});

test("an agent that comes back having forgotten everything is no reason to stop", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startPair(agent, { tokens: true, defaultChecks: true });
  await waitForPassing(agent, "db");
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream);
  await pause(1_000);
  // It leaves in order, so its instances go from the catalog, too.
  await agent.stop("SIGTERM");
  await agent.wipe();
  await agent.start();
  // Its indexes start again and both registrations are unknown (404).
  await pause(5_000);
  await pair.registerAgain();
  await pause(AFTER_MS);
  pair.expectFlawless(await load.stop({ atLeast: 1_000 }), { atLeast: 1_000 });
  await expectFollowed(server, pair);
});

test("another agent at the same address is taken for the one before it", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startPair(agent, { tokens: true, defaultChecks: true });
  await waitForPassing(agent, "db");
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream);
  await pause(1_000);
  await agent.replace();
  await pair.registerAgain();
  await pause(AFTER_MS);
  pair.expectFlawless(await load.stop({ atLeast: 500 }), { atLeast: 500 });
  await expectFollowed(server, pair);
});

test("servers that are away for a while are not missed", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startPair(agent, { tokens: true, defaultChecks: true });
  await waitForPassing(agent, "db");
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream);
  await pause(1_000);
  await server.stop("SIGKILL");
  await pause(15_000);
  await server.start();
  await pause(3_000);
  pair.expectFlawless(await load.stop({ atLeast: 1_000 }), { atLeast: 1_000 });
  await expectFollowed(server, pair);
});

/** The watches are alive again: a deny ends an open connection, an allow lets new ones in. */
async function expectFollowed(server: Consul, pair: Pair): Promise<void> {
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(new TextEncoder().encode("hello"));
  await server.intention("web", "db", "deny");
  // Longer than the second of a healthy day: a watch may still be in its back-off, and the first
  // answer of a server that came back takes seconds.
  if (!await deadline(open.over, 60_000)) throw new Error("A deny after the outage is ignored");
  open.destroy();
  await waitForRefusal(pair.upstream);
  await server.intention("web", "db", "allow");
  await waitForEcho(pair.upstream);
}
