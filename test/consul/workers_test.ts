import test from "node:test";
import { startConsul } from "../kit/consul.ts";
import { EchoClient, waitForEcho } from "../kit/echo.ts";
import { Load } from "../kit/load.ts";
import { startPair } from "../kit/mesh.ts";
import { deadline, eventually, pause } from "../kit/process.ts";

for (const workers of ["0", "3"]) {
  test(`-workers ${workers} relays, follows intentions and reports every connection`, async () => {
    await using server = await startConsul({ acl: true });
    const args = ["-workers", workers];
    await using pair = await startPair(server, { tokens: true, sidecar: { args } });
    await waitForEcho(pair.upstream);
    await using load = new Load(pair.upstream, { longLived: 12, shortLived: 4 });
    await pause(2_000);
    pair.expectFlawless(await load.stop({ atLeast: 200 }), { atLeast: 200 });

    const clients = await Promise.all(
      Array.from({ length: 20 }, () => EchoClient.open(pair.upstream)),
    );
    for (const client of clients) await client.exchange(new TextEncoder().encode("hello"));
    // A worker that does not answer in time is left out of one view.
    await eventually("/connections shows all 20", async () => {
      const { body } = await pair.posterns.db.admin("/connections");
      const inbound = body.split('"direction": "inbound"').length - 1;
      if (inbound >= 20) return true;
      throw new Error(`${inbound} of 20\n${body.slice(0, 500)}`);
    });
    await server.intention("web", "db", "deny");
    const closed = await deadline(Promise.all(clients.map((client) => client.over)), 30_000);
    if (!closed) throw new Error("Some connections are open 30 s after the deny");
    for (const client of clients) client.destroy();
  });
}
