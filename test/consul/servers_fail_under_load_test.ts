/**
 * Failures of servers are not noticed by connections, let no caller in, and are made up for afterwards.
 */

import assert from "node:assert/strict";
import test from "node:test";
import { startDisturbedPair, withstands } from "../kit/mesh/disturbed_pair.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { rounds } from "../kit/clock/long.ts";
import { eventually, pause } from "../kit/process/process.ts";

test("servers fail under load in several ways", async (t) => {
  await using on = await startDisturbedPair();
  const { cluster, pair } = on;

  await t.test("the leader is killed", async () => {
    const leader = await cluster.waitForLeader();
    await withstands(on, { what: "leader killed" }, async () => {
      await cluster.killServer(leader);
      await cluster.waitForLeader();
    });
    await cluster.startServer(leader);
    await cluster.waitForHealth();
  });

  await t.test("the server in use hangs", async () => {
    const hung = await cluster.serverOf(pair.db);
    const late = await cluster.register({ name: "late" });
    const token = await cluster.ownToken("late");
    await withstands(on, { what: "server in use hung" }, async () => {
      cluster.hang(hung);
      const began = performance.now();
      await using _ = await cluster.sidecar(late, token);
      console.log(`a sidecar started meanwhile is ready after ${performance.now() - began | 0} ms`);
      // The sidecar reads the cluster no more often than Consul wants.
      await eventually("db has another server", async () => {
        return await cluster.serverOf(pair.db) !== hung;
      }, { timeoutMs: 60_000 });
    });
    cluster.resume(hung);
    await cluster.waitForHealth();
  });

  await t.test("one is replaced by another elsewhere, and then left alone without a leader", async () => {
    const replaced = await cluster.serverOf(pair.db);
    await withstands(on, { what: "server replaced" }, async () => {
      await cluster.replaceServer(replaced);
      await cluster.waitForHealth();
    });
    const others = [0, 1, 2].filter((index) => index !== replaced);
    const seconds = rounds("seconds without a leader", { few: 10, all: 60 });
    await withstands(on, { what: `no leader for ${seconds} s` }, async () => {
      for (const index of others) await cluster.killServer(index);
      for (const sidecar of [pair.web, pair.db]) {
        await eventually("it uses a server that no flag named", async () => {
          return await cluster.serverOf(sidecar) === replaced;
        });
      }
      await pause(seconds * 1_000);
      for (const index of others) await cluster.startServer(index);
      await cluster.waitForHealth();
    });
  });
});

test("data that a server lost with its disk is not taken for deleted", async () => {
  // Without tokens only the answers' content shows it, and without intentions every caller is let in.
  await using on = await startDisturbedPair({
    cluster: { acl: false, defaultIntentionPolicy: "allow" },
  });
  const { cluster, pair } = on;
  const leader = await cluster.waitForLeader();
  const emptied = leader === 0 ? 1 : 0;
  const at = await cluster.place();
  await cluster.register({ name: "db", id: "db-2", port: pair.app.port, sidecarPort: at.port });
  const only = cluster.members.filter((_, index) => index === emptied);
  await using pinned = await cluster.sidecar("db-2", {
    args: [...cluster.serverFlags(only), "-server-watch-disabled"],
  });
  await waitForEcho(pair.upstream);
  await withstands(on, { what: "server emptied", at }, async () => {
    for (let turn = 0; turn < 2; turn++) {
      await cluster.killServer(emptied);
      await cluster.startServer(emptied, { empty: true });
      await cluster.waitForHealth();
      assert.equal(await cluster.serverOf(pinned), emptied);
    }
  });
});
