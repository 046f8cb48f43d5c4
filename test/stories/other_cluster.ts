/**
 * Another cluster answers at the old address: its data was wiped, or another operator has the address
 * now.
 */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { waitForEcho } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { type Postern, ready } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";
import { type AgentLeaf, probeTls, readLeaf } from "../kit/wire/tls_probe.ts";

const SAID = { timeoutMs: 60_000 };
const DOMAIN = String.raw`[0-9a-f-]{36}\.consul`;
/** Both trust domains, and the file that is to be removed. */
const FOREIGN = new RegExp(
  String.raw`\[ERROR\] [^\n]*another cluster[^\n]*trust domain is \\?"(${DOMAIN})[^\n]*` +
    String.raw`cluster is \\?"(${DOMAIN})[^\n]*remove (\S+\.json) `,
);

export function otherCluster(agents: Agents): void {
  test("another cluster at the old address is not followed until the operator allows it", async () => {
    const directory = await mkdtemp(join(tmpdir(), "postern-cluster-"));
    try {
      await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
      const both = { args: ["-state-dir", directory, "-settle-time", "0"] };
      await using pair = await startMeshPair(mesh, { both, noIntention: true });
      const at = pair.public;
      await mesh.intention("stranger", "db", "deny");
      const stranger = await readLeaf(mesh, "stranger");
      await waitForEcho(pair.upstream);
      await eventually("the intention counts", async () => !await isLet(at, stranger));
      for (const sidecar of [pair.web, pair.db]) {
        await eventually("all that it knows is written", async () => {
          return await sidecar.metric("postern_snapshot_stored_seconds") > 0;
        });
      }

      await using load = new Load(pair.upstream);
      await mesh.wipeCluster();
      // An agent whose servers are others lets a wait go on: it is a change that they are found out with.
      await pair.registerAgain({ meta: { again: "yes" } });
      const [, theirs, ours, file] = await pair.db.process.waitFor(FOREIGN, SAID);
      await pair.web.process.waitFor(FOREIGN, SAID);
      assert.notEqual(theirs, ours);
      assert.ok(file?.startsWith(directory), `${file}`);
      const newcomer = await readLeaf(mesh, "stranger");
      const before = await asked(pair.db);
      await eventually("it has asked again", async () => await asked(pair.db) > before + 2, SAID);
      assert.ok(!await isLet(at, stranger), "the intention still counts");
      assert.ok(!await isLet(at, newcomer), "a certificate of the other cluster is none");
      const { status, body } = await pair.db.admin("/ready");
      assert.equal(status, 200);
      assert.ok(body.includes("another cluster") && body.includes(theirs ?? "?"), body);
      pair.expectFlawless(await load.stop({ atLeast: 50 }), { atLeast: 50 });

      // A restart goes on with the stored data.
      for (const sidecar of [pair.web, pair.db]) assert.equal((await sidecar.stop()).code, 0);
      {
        await using db = await ready(mesh.runSidecar("db-1", both));
        await using web = await ready(mesh.runSidecar("web-1", both));
        for (const sidecar of [db, web]) await sidecar.process.waitFor(FOREIGN, SAID);
        await waitForEcho(pair.upstream);
        assert.ok(!await isLet(at, stranger));
        assert.ok(!await isLet(at, newcomer));
        for (const sidecar of [db, web]) assert.equal((await sidecar.stop()).code, 0);
      }

      // A sidecar without that state belongs to whichever cluster it meets.
      await rm(directory, { recursive: true });
      await using _db = await mesh.sidecar("db-1", both);
      await using _web = await mesh.sidecar("web-1", both);
      await waitForEcho(pair.upstream);
      const known = await readLeaf(mesh, "stranger");
      assert.ok(await isLet(at, known), "there is no intention in the new cluster");
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });
}

async function isLet(
  place: { readonly host: string; readonly port: number },
  { CertPEM, PrivateKeyPEM }: AgentLeaf,
): Promise<boolean> {
  return (await probeTls(place, { cert: CertPEM, key: PrivateKeyPEM })).accepted;
}

/** How often it tried to read anything. */
async function asked(sidecar: Postern): Promise<number> {
  return await sidecar.metric("postern_agent_watch_failures_total");
}
