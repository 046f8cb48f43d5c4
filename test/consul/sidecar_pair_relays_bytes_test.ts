import test from "node:test";
import assert from "node:assert/strict";
import { startConsul } from "../kit/mesh/consul.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import { startMeshPair, waitForPassing } from "../kit/mesh/mesh_pair.ts";
import { pause } from "../kit/process/process.ts";

test("two sidecars with service-identity tokens relay bytes under default deny", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  // Consul's own checks, as a plain registration has them: 10 s apart, critical until the first.
  await using pair = await startMeshPair(agent, { defaultChecks: true });
  await waitForEcho(pair.upstream, { timeoutMs: 40_000 });
  await waitForPassing(agent, "db");

  await using load = new Load(pair.upstream);
  await pause(3_000);
  pair.expectFlawless(await load.stop({ atLeast: 200 }), { atLeast: 200 });

  const { web, db } = pair;
  assert.equal((await web.admin("/ready")).status, 200);
  assert.equal((await db.admin("/ready")).status, 200);
  const { code } = await web.stop();
  assert.equal(code, 0, "SIGTERM ends it with exit code 0");
});
