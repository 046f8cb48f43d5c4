import { test } from "node:test";
import { DevCluster } from "../../kit/mesh/dev_cluster.ts";
import { waitForEcho } from "../../kit/wire/echo.ts";
import { Load } from "../../kit/wire/load.ts";
import { expectFollowed, startMeshPair } from "../../kit/mesh/mesh_pair.ts";
import { eventually } from "../../kit/process/process.ts";

test("a pair without an agent serves while servers are killed, come back empty and have no leader", async () => {
  await using mesh = await DevCluster.start({ acl: true });
  const { servers } = mesh;
  await using pair = await startMeshPair(mesh);
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream, { pauseMs: 25 });
  const led = () => eventually("a server leads", () => Promise.resolve(servers.leader));
  /**
   * A rule about a caller that does not exist is written and reaches the sidecar that judges, whichever
   * server it asks.
   */
  const followed = async (stranger: string) => {
    await mesh.intention(stranger, "db", "deny");
    await eventually(`the rule for ${stranger} is known`, async () => {
      return (await pair.db.admin("/config_dump")).body.includes(`"${stranger}"`);
    });
  };

  const dead = await led();
  servers.kill(dead);
  await led();
  await followed("one");

  // The leader is killed, so a sidecar that asked it moves on to the server that has just come back
  // empty.
  await servers.restart(dead, { empty: true });
  servers.kill(await led());
  await led();
  await followed("two");

  servers.loseQuorum();
  await load.past(load.result.exchanges + 50);
  servers.elect();
  await followed("three");
  pair.expectFlawless(await load.stop({ atLeast: 100 }), { atLeast: 100 });
  await expectFollowed(mesh, pair);
});
