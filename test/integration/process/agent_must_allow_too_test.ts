import test from "node:test";
import assert from "node:assert/strict";
import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { expectRefused, waitForEcho, waitForRefusal } from "../../kit/wire/echo.ts";
import { startMeshPair } from "../../kit/mesh/mesh_pair.ts";
import { authorizeBoth } from "../../stories/authorize_both.ts";

authorizeBoth(DevMesh);

const AUTHORIZE = /POST \/v1\/agent\/connect\/authorize/;

test("-authorize both takes a clear yes from the agent, and nothing else", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh, { db: { args: ["-authorize", "both"] } });
  await waitForEcho(pair.upstream);
  const says = (body: string) => {
    mesh.agent.mend();
    mesh.agent.breakNext(AUTHORIZE, { kind: "replace", body }, Infinity);
  };

  // The intentions allow it; the agent denies it.
  says('{"Authorized": false, "Reason": "Denied by maintenance"}');
  await expectRefused(pair.upstream);
  const denied = await pair.db.process.waitFor(/connection failed[^\n]*intention_denied[^\n]*/, {
    timeoutMs: 20_000,
  });
  assert.match(denied[0], /Denied by maintenance/);

  for (const body of ["{}", "null", '{"Authorized": "true"}', '{"Authorized": tr']) {
    says(body);
    await expectRefused(pair.upstream);
  }

  // A yes alone is not enough.
  says('{"Authorized": true, "Reason": "of course"}');
  await waitForEcho(pair.upstream);
  await mesh.intention("web", "db", undefined);
  await waitForRefusal(pair.upstream);
});
