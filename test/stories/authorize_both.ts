/** `-authorize both`: beside the intentions, the agent judges each connection. */

import assert from "node:assert/strict";
import test from "node:test";
import { EchoClient, expectRefused, waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { type MeshPair, startMeshPair } from "../kit/mesh/mesh_pair.ts";

export function authorizeBoth(agents: Agents): void {
  test("-authorize both asks the agent for each connection, and fails closed without it", async () => {
    await using mesh = await agents.start({ acl: true, clientAgent: true });
    await using pair = await startMeshPair(mesh, { both: { args: ["-authorize", "both"] } });
    await waitForEcho(pair.upstream);
    const explained = async () => (await pair.db.admin("/explain?source=web&format=text")).body;
    assert.match(await explained(), /\nrule +.* => .*, and the agent agrees\n/);
    await using load = new Load(pair.upstream);
    pair.expectFlawless(await load.stop({ atLeast: 100 }), { atLeast: 100 });

    // A real agent's answer freezes after a few changes; the intentions themselves do not. Frozen at
    // "deny" it lets no caller in until the agent is started again, because both must allow.
    for (let round = 0; round < 5; round++) {
      const open = await EchoClient.open(pair.upstream);
      await open.exchange(new TextEncoder().encode("hello"));
      await mesh.intention("web", "db", "deny");
      await open.over;
      open.destroy();
      await waitForRefusal(pair.upstream);
      await mesh.intention("web", "db", "allow");
      if (await freezesAtDeny(pair)) break;
    }

    // With the agent away there is no answer.
    await mesh.kill();
    await expectRefused(pair.upstream);
    await pair.db.process.waitFor(/connection failed[^\n]*code=authorize_failed/, {
      timeoutMs: 20_000,
    });
    assert.match(
      await explained(),
      /\nverdict +the connection is closed: Cannot reach the Consul agent /,
    );
    await mesh.start();
    await waitForEcho(pair.upstream);
  });
}

/** Lets the connections of one pair in again, unless the agent alone still denies. */
async function freezesAtDeny({ db, upstream }: MeshPair): Promise<boolean> {
  try {
    await waitForEcho(upstream, { timeoutMs: 5_000 });
    return false;
  } catch (error) {
    const refusals = db.output.match(/code=intention_denied.*/g) ?? [];
    if (/agent: .*DENY/.test(refusals.at(-1) ?? "")) return true;
    throw error;
  }
}
