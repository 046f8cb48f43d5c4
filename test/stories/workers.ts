/** However many threads carry the connections: they share the ports, and all follow the intentions. */

import assert from "node:assert/strict";
import test from "node:test";
import { EchoClient, waitForEcho } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { deadline, eventually } from "../kit/process/process.ts";

const HELLO = new TextEncoder().encode("hello");
const CLIENTS = 20;

export function workers(agents: Agents): void {
  for (const [count, expected] of [["0", ["0"]], ["2", ["0", "1"]]] as const) {
    test(`-workers ${count} relays, follows intentions, and shows and ends every connection`, async () => {
      await using mesh = await agents.start({ acl: true });
      await using pair = await startMeshPair(mesh, { both: { args: ["-workers", count] } });
      const { web, db } = pair;
      await waitForEcho(pair.upstream);
      await using load = new Load(pair.upstream, { longLived: 12, shortLived: 4 });
      pair.expectFlawless(await load.stop({ atLeast: 200 }), { atLeast: 200 });

      // The kernel deals them out by a hash of the ports.
      const clients: EchoClient[] = [];
      let serving: readonly string[] = [];
      for (let turn = 0; clients.length < CLIENTS || serving.length < expected.length; turn++) {
        assert.ok(turn < 64, `only ${serving.join()} serve`);
        const client = await EchoClient.open(pair.upstream);
        clients.push(client);
        await client.exchange(HELLO);
        // A worker that does not answer in time is left out of one view.
        if (clients.length < CLIENTS) continue;
        serving = await eventually(`/connections shows all ${clients.length}`, async () => {
          const { connections } = JSON.parse((await db.admin("/connections")).body) as {
            readonly connections: readonly { readonly id: string; readonly direction: string }[];
          };
          const ids = connections.filter(({ direction }) => direction === "inbound");
          if (ids.length !== clients.length) throw new Error(`${ids.length} are shown`);
          return [...new Set(ids.map(({ id }) => id.split("-")[0] ?? ""))].sort();
        });
      }
      assert.deepEqual(serving, expected);
      await eventually("all are counted", async () => {
        return await db.metric("postern_connections_active") === clients.length;
      });
      assert.equal((await web.admin("/listeners")).body.trimEnd().split("\n").length, 2);

      await mesh.intention("web", "db", "deny");
      const closed = await deadline(Promise.all(clients.map(({ over }) => over)), 30_000);
      assert.ok(closed, "some connections are open 30 s after the deny");
      for (const client of clients) client.destroy();

      await mesh.intention("web", "db", "allow");
      await waitForEcho(pair.upstream);
      const open = await EchoClient.open(pair.upstream);
      await open.exchange(HELLO);
      web.kill("SIGTERM");
      await open.finish();
      assert.equal((await web.process.waitExit({ timeoutMs: 20_000 })).code, 0);
      assert.equal((await db.stop()).code, 0);
      assert.doesNotMatch(web.output + db.output, /data worker died/);
    });
  }
}
