import test from "node:test";
import assert from "node:assert/strict";
import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { EchoClient, waitForEcho } from "../../kit/wire/echo.ts";
import { Load } from "../../kit/wire/load.ts";
import { type MeshPair, startMeshPair } from "../../kit/mesh/mesh_pair.ts";
import type { Postern } from "../../kit/process/postern.ts";
import { deadline, eventually } from "../../kit/process/process.ts";
import { promptly } from "../../kit/clock/promptly.ts";

const HELLO = new TextEncoder().encode("hello");

interface Certs {
  readonly leaf: { readonly serial: string };
  readonly roots: readonly { readonly serial: string }[];
}

async function certs(postern: Postern): Promise<Certs> {
  return JSON.parse((await postern.admin("/certs")).body);
}

/** A new root beside the old one, and leaves by it on both sides. */
async function rotate(mesh: DevMesh, pair: MeshPair): Promise<void> {
  const sidecars = [pair.web, pair.db];
  const before = await Promise.all(sidecars.map(certs));
  await mesh.rotateCa();
  for (const [index, sidecar] of sidecars.entries()) {
    await eventually("it has both roots and a new leaf", async () => {
      const { roots, leaf } = await certs(sidecar);
      return roots.length === 2 && leaf.serial !== before[index]?.leaf.serial;
    });
  }
}

test("leaves that are issued anew under load cost no connection", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);
  await using load = new Load(pair.upstream);
  for (const [service, sidecar] of [["db", pair.db], ["web", pair.web]] as const) {
    const before = (await certs(sidecar)).leaf.serial;
    mesh.agent.world.ca.issue(service);
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
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);
  await using load = new Load(pair.upstream);
  await rotate(mesh, pair);
  const exchanges = load.result.exchanges;
  await eventually("the load goes on", () => load.result.exchanges >= exchanges + 100);
  pair.expectFlawless(await load.stop(), { atLeast: 100 });
  await open.exchange(HELLO);

  // A connection that only the old root proved ends with it.
  let old: EchoClient | undefined = open;
  await promptly("what a removed root proved is closed", 1_000, async () => {
    if (!old) {
      await waitForEcho(pair.upstream);
      old = await EchoClient.open(pair.upstream);
      await old.exchange(HELLO);
      await rotate(mesh, pair);
    }
    const removed = performance.now();
    mesh.agent.world.ca.prune();
    const over = await deadline(old.over, 20_000);
    old.destroy();
    old = undefined;
    assert.ok(over !== undefined, "still trusted after 20 s");
    return over - removed;
  });
  await waitForEcho(pair.upstream);
});
