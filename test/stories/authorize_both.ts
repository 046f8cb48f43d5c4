/** `-authorize both`: beside the intentions, the agent is asked about each connection. */

import test from "node:test";
import { EchoClient, expectRefused, waitForEcho, waitForRefusal } from "../kit/echo.ts";
import { Load } from "../kit/load.ts";
import type { Agents } from "../kit/mesh.ts";
import { startPair } from "../kit/mesh_pair.ts";

export function authorizeBoth(agents: Agents): void {
  test("-authorize both asks the agent for each connection, and fails closed without it", async () => {
    await using mesh = await agents.start({ acl: true, clientAgent: true });
    await using pair = await startPair(mesh, { both: { args: ["-authorize", "both"] } });
    await waitForEcho(pair.upstream);
    await using load = new Load(pair.upstream);
    pair.expectFlawless(await load.stop({ atLeast: 100 }), { atLeast: 100 });

    // A real agent's answer freezes at "allow" after a few changes; the intentions themselves do not.
    for (let round = 0; round < 5; round++) {
      const open = await EchoClient.open(pair.upstream);
      await open.exchange(new TextEncoder().encode("hello"));
      await mesh.intention("web", "db", "deny");
      await open.over;
      open.destroy();
      await waitForRefusal(pair.upstream);
      await mesh.intention("web", "db", "allow");
      await waitForEcho(pair.upstream);
    }

    // With the agent away nobody can be asked.
    await mesh.kill();
    await expectRefused(pair.upstream);
    await pair.db.process.waitFor(/connection failed[^\n]*code=authorize_failed/, {
      timeoutMs: 20_000,
    });
    await mesh.start();
    await waitForEcho(pair.upstream);
  });
}
