import test from "node:test";
import { startConsul } from "../kit/mesh/consul.ts";
import { waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import { saysRefused, startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { envoySidecar } from "../kit/mesh/sidecars.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { presentedSerial } from "../kit/wire/tls_probe.ts";

for (
  const [title, web, db] of [
    ["Postern calls Envoy", {}, envoySidecar],
    ["Envoy calls Postern", envoySidecar, {}],
  ] as const
) {
  test(`${title}, before and after a CA rotation, and is denied by intention`, async () => {
    await using server = await startConsul({ acl: true });
    await using agent = await startConsul({ clientOf: server });
    await using pair = await startMeshPair(agent, { web, db });
    await waitForEcho(pair.upstream);
    await using load = new Load(pair.upstream);
    await pause(3_000);
    pair.expectFlawless(await load.stop({ atLeast: 300 }), { atLeast: 300 });

    const listeners = [
      { place: pair.public, as: "web" },
      { place: pair.webPublic, as: "db" },
    ];
    const serials = () =>
      Promise.all(listeners.map(({ place, as }) => presentedSerial(place, { agent, as })));
    // Envoy listens before it has all it needs for a handshake.
    const before = await eventually("both sidecars present their leaves", serials);
    await server.rotateCa();
    await eventually("both sidecars present new leaves", async () => {
      return (await serials()).every((serial, index) => serial !== before[index]);
    }, { timeoutMs: 120_000, everyMs: 1_000 });
    await waitForEcho(pair.upstream);

    await server.intention("web", "db", "deny");
    await waitForRefusal(pair.upstream);
    if (db === envoySidecar) await saysRefused(pair);
  });
}
