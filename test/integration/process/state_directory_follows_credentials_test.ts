import test from "node:test";
import assert from "node:assert/strict";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import type { Postern } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";
import { inlineBundle, startSdsServer } from "../../kit/secrets/sds_server.ts";
import { CredentialsStory } from "../../kit/mesh/sidecar_credentials.ts";
import { probeTls } from "../../kit/wire/tls_probe.ts";
import { TlsSession } from "../../kit/wire/tls_session.ts";

test("credentials are followed after a restart while the agent is away", async () => {
  await using mesh = await DevMesh.start();
  await using sds = await startSdsServer();
  await using story = await CredentialsStory.start(mesh);
  const first = await story.writePair("db");
  const meshRoots = await story.meshRoots();
  sds.set(inlineBundle("roots", meshRoots));
  const address = sds.address.kind === "unix" ? `unix://${sds.address.path}` : "";
  await story.register({
    postern_tls: {
      certificate: { source: "file", cert: story.path("db.pem"), key: story.path("db.key") },
      validation: { source: "sds", cluster: "sds_cluster", name: "roots" },
      sds_clusters: { sds_cluster: { address } },
    },
  });
  const args = ["-state-dir", story.path("state")];
  const before = story.run(...args);
  await before.waitReady();
  await story.shows(first);
  // The agent is away and gives no leaves.
  const leaf = await story.leaf("web");
  const client = { cert: leaf.CertPEM, key: leaf.PrivateKeyPEM };
  const shows = (serial: string) =>
    eventually(`db shows ${serial}`, async () => {
      const outcome = await probeTls(story.place, client);
      return outcome.accepted && outcome.serial === serial;
    });
  const stored = (serial: string) =>
    eventually(`the state has ${serial}`, async () => {
      const { snapshot, credentials } = await readState(story.path("state"));
      return Object.values(snapshot.certificates).some((found) =>
        (found as { serial: string }).serial.replaceAll(":", "").replace(/^0+/, "") === serial
      ) && credentials.salt !== "";
    });
  await stored(first);

  await mesh.kill();
  assert.equal((await before.stop()).code, 0);
  const second = await (async () => {
    const alone = story.run(...args);
    await alone.waitReady();
    assert.match(alone.output, /\[WARN\] +agent is away, stored snapshot in use/);
    await shows(first);
    const second = await story.writePair("db");
    await shows(second);
    await stored(second);
    await alone.stop();
    return second;
  })();

  // Without its files the stored state serves; when they come, they do.
  await rm(story.path("db.pem"));
  await rm(story.path("db.key"));
  const db = story.run(...args);
  await db.waitReady();
  await shows(second);
  const third = await story.writePair("db");
  await shows(third);

  // Trust is followed as well, and holds for who is in already.
  {
    using staying = await TlsSession.open(story.place, { client });
    sds.set(inlineBundle("roots", `${meshRoots}\n${story.other.rootPem}`));
    await eventually("both roots are stored", async () => {
      const { snapshot } = await readState(story.path("state"));
      return JSON.stringify(Object.values(snapshot.validations)).split("BEGIN CERT").length === 3;
    });
    await staying.exchange();
    sds.set(inlineBundle("roots", story.other.rootPem));
    assert.ok(await staying.ends({ timeoutMs: 10_000 }), "the open connection was judged again");
    assert.equal((await probeTls(story.place, client)).accepted, false);
    sds.set(inlineBundle("roots", meshRoots));
    await shows(third);
  }

  // The agent gives the same facts: no secret is fetched again, no connection is closed.
  using staying = await TlsSession.open(story.place, { client });
  const happened = await eventsOf(db);
  const { streams } = sds;
  await mesh.start();
  await eventually(
    "it follows the agent",
    async () => await db.metric("postern_snapshot_restored") === 0,
  );
  await staying.exchange();
  await shows(third);
  assert.deepEqual(await eventsOf(db), happened);
  assert.equal(sds.streams, streams);
  assert.equal(await db.metric("postern_snapshot_refused"), 0);
  const fourth = await story.writePair("db");
  await shows(fourth);
});

async function readState(directory: string) {
  const names = (await readdir(directory)).filter((name) => name.endsWith(".json"));
  assert.equal(names.length, 1);
  return JSON.parse(await readFile(join(directory, names[0] ?? ""), "utf8")).state;
}

/** The events of secrets that are not the agent's. */
async function eventsOf(postern: Postern): Promise<readonly string[]> {
  const { events } = JSON.parse((await postern.admin("/events")).body);
  return events.filter(({ kind }: { kind: string }) => kind === "secret")
    .map(({ text, subject }: { text: string; subject: string }) => `${text} ${subject}`);
}
