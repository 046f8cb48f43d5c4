import test from "node:test";
import { startConsul } from "../kit/mesh/consul.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import { startMeshPair, waitForPassing } from "../kit/mesh/mesh_pair.ts";
import { eventually, pause } from "../kit/process/process.ts";

test("db's agent leaving empties health for web, whose new connections still arrive", async () => {
  await using server = await startConsul({ acl: true });
  await using dbAgent = await startConsul({ clientOf: server });
  await using webAgent = await startConsul({ clientOf: server });
  await using pair = await startMeshPair(dbAgent, { webAgent, defaultChecks: true });
  await waitForPassing(dbAgent, "db");
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream);
  await pause(1_000);
  await dbAgent.stop("SIGTERM");
  // Leaving, it is taken out of the catalog, but its last sync may have put it back: take it out again.
  for (const { Node } of await server.get<{ Node: string }[]>("/v1/catalog/connect/db")) {
    await server.put("/v1/catalog/deregister", { Node });
  }
  await eventually("the instance is gone from the catalog", async () => {
    return (await server.get<unknown[]>("/v1/health/connect/db")).length === 0;
  }, { timeoutMs: 60_000 });
  await pause(6_000);
  await dbAgent.start();
  // The agent looks at its instances again within ten seconds.
  await pause(12_000);
  pair.expectFlawless(await load.stop({ atLeast: 500 }), { atLeast: 500 });
});
