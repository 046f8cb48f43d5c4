import test from "node:test";
import { startConsul } from "../kit/mesh/consul.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import { expectFollowed, startMeshPair, waitForPassing } from "../kit/mesh/mesh_pair.ts";
import { pause } from "../kit/process/process.ts";

// Registered as most are, with Consul's default checks: an agent that comes back holds all of them
// critical until each has run again, up to ten seconds later.
const AFTER_MS = 12_000;

test("an agent that is away for 60 s is not missed, and is followed again afterwards", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startMeshPair(agent, { defaultChecks: true });
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
  await using pair = await startMeshPair(agent, { defaultChecks: true });
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
  await using pair = await startMeshPair(agent, { defaultChecks: true });
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
  await using pair = await startMeshPair(agent, { defaultChecks: true });
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
