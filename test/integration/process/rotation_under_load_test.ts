import test from "node:test";
import assert from "node:assert/strict";
import { DevPair } from "../../kit/dev_mesh.ts";
import { EchoClient, waitForEcho } from "../../kit/echo.ts";
import { Load } from "../../kit/load.ts";
import type { Postern } from "../../kit/postern.ts";
import { deadline, eventually } from "../../kit/process.ts";

const HELLO = new TextEncoder().encode("hello");

interface Certs {
  readonly leaf: { readonly serial: string };
  readonly roots: readonly { readonly serial: string }[];
}

async function certs(postern: Postern): Promise<Certs> {
  return JSON.parse((await postern.admin("/certs")).body);
}

test("leaves that are issued anew under load cost no connection", async () => {
  await using pair = await DevPair.start();
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);
  await using load = new Load(pair.upstream);
  for (const [service, sidecar] of [["db", pair.db], ["web", pair.web]] as const) {
    const before = (await certs(sidecar)).leaf.serial;
    pair.agent.ca.reissue(service);
    await eventually(`${service} presents the new leaf`, async () => {
      return (await certs(sidecar)).leaf.serial !== before;
    });
  }
  const before = load.result.exchanges;
  await eventually("the load goes on", () => load.result.exchanges >= before + 100);
  pair.expectFlawless(await load.stop(), { atLeast: 100 });
  await open.exchange(HELLO);
  await open.finish();
});

test("a CA that is rotated under load costs no connection, until its root is removed", async () => {
  await using pair = await DevPair.start();
  await waitForEcho(pair.upstream);
  const before = await certs(pair.db);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);
  await using load = new Load(pair.upstream);
  pair.agent.rotateCa();
  for (const sidecar of [pair.web, pair.db]) {
    await eventually("it has both roots and a new leaf", async () => {
      const { roots, leaf } = await certs(sidecar);
      return roots.length === 2 && leaf.serial !== before.leaf.serial;
    });
  }
  const exchanges = load.result.exchanges;
  await eventually("the load goes on", () => load.result.exchanges >= exchanges + 100);
  pair.expectFlawless(await load.stop(), { atLeast: 100 });
  await open.exchange(HELLO);

  // What only the old root proved is over with it.
  const removed = performance.now();
  pair.agent.pruneRoots();
  const over = await deadline(open.over, 5_000);
  assert.ok(over !== undefined && over - removed < 1_000, `${over}: still trusted after a second`);
  open.destroy();
  await waitForEcho(pair.upstream);
});
