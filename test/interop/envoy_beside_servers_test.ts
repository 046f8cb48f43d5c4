/**
 * Envoy and Postern beside the same servers, with entries of one shape: each accepts the other's
 * connections.
 */

import test from "node:test";
import { startCluster } from "../kit/mesh/cluster.ts";
import { waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { envoyBesideServers } from "../kit/mesh/sidecars.ts";

for (
  const [title, web, db] of [
    ["Postern calls Envoy", {}, envoyBesideServers],
    ["Envoy calls Postern", envoyBesideServers, {}],
  ] as const
) {
  test(`${title} beside servers, and is denied and allowed by intention`, async () => {
    await using cluster = await startCluster({ acl: true, tls: true });
    await using pair = await startMeshPair(cluster, { web, db });
    await waitForEcho(pair.upstream);
    await using load = new Load(pair.upstream);
    pair.expectFlawless(await load.stop({ atLeast: 300 }), { atLeast: 300 });
    await cluster.intention("web", "db", "deny");
    await waitForRefusal(pair.upstream);
    await cluster.intention("web", "db", "allow");
    await waitForEcho(pair.upstream);
  });
}
