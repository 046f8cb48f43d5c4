/** The rights of an open connection are decided anew with each change of the intentions. */

import assert from "node:assert/strict";
import test from "node:test";
import { EchoClient, waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import type { Agents, Mesh } from "../kit/mesh/mesh.ts";
import { type MeshPair, startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { deadline, eventually } from "../kit/process/process.ts";
import { assertMostlyWithin } from "../kit/clock/promptly.ts";

const HELLO = new TextEncoder().encode("hello");
/** A real agent's authorize call and bare cached reads freeze within 8 changes: go past that. */
const ROUNDS = 10;

export function intentionFlip(agents: Agents): void {
  test("a denied connection that is open closes within a second, each time", async () => {
    await using mesh = await agents.start({ acl: true, clientAgent: true });
    await using pair = await startMeshPair(mesh);
    await waitForEcho(pair.upstream);
    const closedMs: number[] = [];
    const openedMs: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      closedMs.push(await closedBy(pair, () => mesh.intention("web", "db", "deny")));
      await waitForRefusal(pair.upstream);
      const allowed = performance.now();
      await mesh.intention("web", "db", "allow");
      await waitForEcho(pair.upstream);
      openedMs.push(performance.now() - allowed);
    }
    const [line] = await pair.db.process.waitFor(
      /connection failed[^\n]*stage=relay[^\n]*intention_denied[^\n]*/,
      { timeoutMs: 20_000 },
    );
    // The source, and the rule.
    assert.match(line, /source=spiffe:\/\/[^ ]+\/svc\/web /);
    assert.match(line, /rule="[^"]*web[^"]*deny/);
    assertMostlyWithin("it is closed", 1_000, closedMs);
    assertMostlyWithin("it is let in", 2_000, openedMs);
  });

  test("a removed intention leaves the default, deny, to open connections", async () => {
    await using mesh = await agents.start({ acl: true });
    await using pair = await startMeshPair(mesh);
    await closedBy(pair, () => mesh.intention("web", "db", undefined));
    await waitForRefusal(pair.upstream);
  });

  test("a new intention ends connections that only the default policy allowed", async () => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    await using pair = await startMeshPair(mesh, { noIntention: true });
    await closedBy(pair, () => mesh.intention("*", "db", "deny"));
    await waitForRefusal(pair.upstream);
  });

  test("a change that still allows leaves open connections alone", async () => {
    await using mesh = await agents.start({ acl: true });
    await using pair = await startMeshPair(mesh);
    const open = await openThrough(pair);
    await mesh.intention("*", "db", "deny");
    await mesh.intention("other", "db", "deny");
    await carriedOut(mesh, pair);
    await open.exchange(HELLO);
    await open.finish();
  });
}

async function openThrough(pair: MeshPair): Promise<EchoClient> {
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);
  return open;
}

/** Opens a connection, and resolves with the milliseconds from `change` to its end. */
async function closedBy(pair: MeshPair, change: () => Promise<void>): Promise<number> {
  const open = await openThrough(pair);
  const changed = performance.now();
  await change();
  const over = await deadline(open.over, 30_000);
  open.destroy();
  assert.ok(over !== undefined, "it is open after 30 s");
  return over - changed;
}

/** A verdict on all that was changed before has reached who is connected: a later change has. */
async function carriedOut(mesh: Mesh, { db, upstream }: MeshPair): Promise<void> {
  await mesh.intention("last", "db", "deny");
  await eventually("the last rule is known", async () => {
    return (await db.admin("/config_dump")).body.includes('"last"');
  });
  await waitForEcho(upstream);
}
