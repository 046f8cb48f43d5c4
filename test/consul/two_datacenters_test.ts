import test from "node:test";
import { startConsul } from "../kit/mesh/consul.ts";
import { type Place, waitForEcho } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { presentedSerial } from "../kit/wire/tls_probe.ts";

// A secondary's leaf has an empty issuer, its intermediate an empty subject, and after a rotation the
// presented chain is not in issuing order: each side must accept the other's in both roles.
for (
  const [title, webIn, dbIn] of [
    ["the secondary calls the primary", "dc2", "dc1"],
    ["the primary calls the secondary", "dc1", "dc2"],
  ] as const
) {
  test(`${title}, before and after the root is rotated`, async () => {
    await using dc1 = await startConsul({ acl: true });
    await using dc2 = await startConsul({ secondaryOf: dc1 });
    const webAgent = webIn === "dc1" ? dc1 : dc2;
    const dbAgent = dbIn === "dc1" ? dc1 : dc2;
    await using pair = await startMeshPair(dbAgent, {
      webAgent,
      webUpstream: { datacenter: dbIn },
    });
    await waitForEcho(pair.upstream, { timeoutMs: 90_000 });

    const db: Place = pair.public;
    const web: Place = pair.webPublic;
    const serials = async () => [
      await presentedSerial(db, { agent: dbAgent, as: "web" }),
      await presentedSerial(web, { agent: webAgent, as: "db" }),
    ];
    const before = await serials();
    await using load = new Load(pair.upstream);
    await dc1.rotateCa();
    await eventually("both sidecars present new leaves", async () => {
      const now = await serials();
      return now.every((serial, index) => serial !== before[index]);
    }, { timeoutMs: 150_000, everyMs: 1_000 });
    await pause(2_000);
    pair.expectFlawless(await load.stop({ atLeast: 300 }), { atLeast: 300 });
  });
}
