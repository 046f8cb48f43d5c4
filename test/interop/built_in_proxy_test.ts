import test from "node:test";
import { startConsul } from "../kit/mesh/consul.ts";
import { expectRefused, waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import { type MeshPair, saysRefused, startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { builtInSidecar } from "../kit/mesh/sidecars.ts";
import { pause } from "../kit/process/process.ts";

test("the built-in proxy calls Postern and is denied by intention", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startMeshPair(agent, { web: builtInSidecar });
  await expectRelaying(pair);
  await server.intention("web", "db", "deny");
  await waitForRefusal(pair.upstream);
  await server.intention("web", "db", "allow");
  await waitForEcho(pair.upstream);
});

test("Postern calls the built-in proxy", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startMeshPair(agent, { db: builtInSidecar });
  await expectRelaying(pair);
});

// Denied from the start: the built-in proxy does not authorize a resumed TLS session again, and its
// authorization stops following changes after a few of them.
test("Postern sees the denial of the built-in proxy", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await server.intention("web", "db", "deny");
  await using pair = await startMeshPair(agent, {
    db: builtInSidecar,
    noIntention: true,
  });
  await pause(1_000);
  await expectRefused(pair.upstream);
  await saysRefused(pair);
});

async function expectRelaying(pair: MeshPair): Promise<void> {
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream);
  await pause(3_000);
  pair.expectFlawless(await load.stop({ atLeast: 300 }), { atLeast: 300 });
}
