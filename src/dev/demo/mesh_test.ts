import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { seededRandom } from "../../base/mod.ts";
import { demoMeshState, flipIntention, registerDemoMesh, startDevAgent } from "../mod.ts";

test("the demo's mesh registers both services, flips its intention and shows killed sidecars", async () => {
  const down = new Set<number>();
  const clock = new FakeClock();
  await using agent = await startDevAgent({
    clock,
    random: seededRandom(1),
    probes: {
      tcp: (_host, port) =>
        down.has(port) ? Promise.reject(new Error("refused")) : Promise.resolve("ok"),
      http: () => Promise.resolve("ok"),
    },
  });
  const { world } = agent;
  registerDemoMesh(world, {
    web: { port: 1001, sidecarPort: 1002 },
    api: { port: 1003, sidecarPort: 1004 },
    upstreamPort: 1005,
  });
  await clock.advance(1_000);
  const state = demoMeshState(world);
  assert.equal(state.intention, "allow");
  assert.equal(state.services.get("api-1-sidecar-proxy"), "passing");
  for (const intention of ["permissions", "deny", "allow"] as const) {
    flipIntention(world);
    assert.equal(demoMeshState(world).intention, intention);
  }
  down.add(1004);
  await clock.advance(1_000);
  assert.equal(demoMeshState(world).services.get("api-1-sidecar-proxy"), "critical");
  assert.equal(demoMeshState(world).services.get("web-1-sidecar-proxy"), "passing");
});
