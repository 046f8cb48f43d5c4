import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock.ts";
import { seededRandom } from "../../base/mod.ts";
import {
  addInstance,
  demoMeshState,
  flipIntention,
  registerDemoMesh,
  startDevAgent,
} from "../mod.ts";

test("the demo's mesh registers both services, flips its intention and shows killed instances", async () => {
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
  registerDemoMesh(agent, {
    web: { port: 1001, sidecarPort: 1002 },
    db: { port: 1003, sidecarPort: 1004 },
    upstreamPort: 1005,
  });
  assert.equal(addInstance(agent, "db", { port: 1006, sidecarPort: 1007, id: "db-2" }), "db-2");
  await clock.advance(1_000);
  const state = demoMeshState(agent);
  assert.equal(state.intention, "allow");
  assert.equal(state.services.get("db-1-sidecar-proxy"), "passing");
  assert.equal(flipIntention(agent, "web", "db"), "deny");
  assert.equal(demoMeshState(agent).intention, "deny");
  assert.equal(flipIntention(agent, "web", "db"), "allow");
  down.add(1003);
  await clock.advance(1_000);
  assert.equal(demoMeshState(agent).services.get("db-1-sidecar-proxy"), "critical");
  assert.equal(demoMeshState(agent).services.get("db-2-sidecar-proxy"), "passing");
});
