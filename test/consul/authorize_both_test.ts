import test from "node:test";
import { startConsul } from "../kit/consul.ts";
import { expectRefused, waitForEcho, waitForRefusal } from "../kit/echo.ts";
import { Load } from "../kit/load.ts";
import { startPair } from "../kit/mesh.ts";
import { pause } from "../kit/process.ts";

test("-authorize both asks the agent for each connection; its deny is enough, its allow is not", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  const args = ["-authorize", "both"];
  await using pair = await startPair(agent, { tokens: true, sidecar: { args } });
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream);
  await pause(2_000);
  pair.expectFlawless(await load.stop({ atLeast: 100 }), { atLeast: 100 });

  // The agent's answer freezes at "allow" after a few changes; the intentions themselves do not.
  for (let round = 0; round < 5; round++) {
    await server.intention("web", "db", "deny");
    await pause(1_000);
    await waitForRefusal(pair.upstream);
    await server.intention("web", "db", "allow");
    await pause(1_000);
  }

  // With the agent away nobody can be asked: fails closed.
  await agent.stop("SIGKILL");
  await expectRefused(pair.upstream);
});
