import test from "node:test";
import assert from "node:assert/strict";
import { startConsul } from "../kit/mesh/consul.ts";
import { EchoClient, waitForEcho } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { presentedSerial } from "../kit/wire/tls_probe.ts";

test("a new root and the leaves it signs come into use without an error", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startMeshPair(agent);
  await waitForEcho(pair.upstream);
  const listeners = {
    db: { place: pair.public, as: "web" },
    web: { place: pair.webPublic, as: "db" },
  };
  const serials = async () => ({
    db: await presentedSerial(listeners.db.place, { agent, as: listeners.db.as }),
    web: await presentedSerial(listeners.web.place, { agent, as: listeners.web.as }),
  });
  const before = await serials();
  // Older than the rotation: its peer's root stays in force, so it must live on.
  const old = await EchoClient.open(pair.upstream);
  await using load = new Load(pair.upstream);
  await pause(1_000);

  await server.rotateCa();
  await eventually("both sidecars present a leaf of the new root", async () => {
    const now = await serials();
    return now.db !== before.db && now.web !== before.web;
  }, { timeoutMs: 120_000, everyMs: 1_000 });
  await pause(2_000);

  pair.expectFlawless(await load.stop({ atLeast: 1_000 }), { atLeast: 1_000 });
  await old.exchange(new TextEncoder().encode("still here"));
  await old.finish();
  const { Roots } = await agent.get<{ Roots: unknown[] }>("/v1/agent/connect/ca/roots");
  assert.equal(Roots.length, 2);
});
