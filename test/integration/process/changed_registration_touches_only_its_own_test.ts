import test from "node:test";
import assert from "node:assert/strict";
import { DevMesh } from "../../kit/dev_mesh.ts";
import { EchoClient, expectRefused, waitForEcho } from "../../kit/echo.ts";
import { eventually } from "../../kit/process.ts";

const HELLO = new TextEncoder().encode("hello");

test("upstreams that come, move and go leave the others' connections alone", async () => {
  await using mesh = await DevMesh.start({ defaultIntentionPolicy: "allow" });
  await using db = await mesh.echo("db");
  await using cache = await mesh.echo("cache");
  await using _db = await mesh.serve({ name: "db", port: db.port });
  await using _cache = await mesh.serve({ name: "cache", port: cache.port });
  const [dbAt, cacheAt, movedAt] = [await mesh.place(), await mesh.place(), await mesh.place()];
  const web = { name: "web", sidecarPort: (await mesh.place()).port };
  const toDb = { name: "db", port: dbAt.port };
  await using sidecar = await mesh.serve({ ...web, upstreams: [toDb] });
  await waitForEcho(dbAt, { greeting: "db" });
  const open = await EchoClient.open(dbAt);
  assert.equal(await open.readLine(), "db");

  await mesh.register({ ...web, upstreams: [toDb, { name: "cache", port: cacheAt.port }] });
  await waitForEcho(cacheAt, { greeting: "cache" });
  await mesh.register({ ...web, upstreams: [toDb, { name: "cache", port: movedAt.port }] });
  await waitForEcho(movedAt, { greeting: "cache" });
  await eventually("the old address is given up", () => refuses(cacheAt));
  await mesh.register({ ...web, upstreams: [toDb] });
  await eventually("the upstream is gone", () => refuses(movedAt));

  await open.exchange(HELLO);
  await open.finish();
  // With its end all has been written.
  await sidecar.stop();
  const started = [...sidecar.output.matchAll(/listener started[^\n]*listener=(\S+)/g)];
  const names = started.map(([, name]) => name?.split("/").at(-1));
  // One each for what never changed.
  assert.deepEqual(names.sort(), ["cache", "cache", "db", "inbound"]);
});

test("a public port that moves takes new connections there and keeps the open ones", async () => {
  await using mesh = await DevMesh.start({ defaultIntentionPolicy: "allow" });
  await using app = await mesh.echo();
  const [first, second] = [await mesh.place(), await mesh.place()];
  const db = { name: "db", port: app.port };
  await using _db = await mesh.serve({ ...db, sidecarPort: first.port });
  const upstream = { name: "db", ...await mesh.place() };
  await using _web = await mesh.serve({ name: "web", upstreams: [upstream] });
  await waitForEcho(upstream);
  const open = await EchoClient.open(upstream);
  await open.exchange(HELLO);
  await mesh.register({ ...db, sidecarPort: second.port });
  await eventually("the old port is given up", () => refuses(first));
  await waitForEcho(upstream);
  await open.exchange(HELLO);
  await open.finish();
});

test("an application's new port and a new limit are for new connections", async () => {
  await using mesh = await DevMesh.start({ defaultIntentionPolicy: "allow" });
  await using first = await mesh.echo("first");
  await using second = await mesh.echo("second");
  const db = { name: "db", sidecarPort: (await mesh.place()).port };
  await using _db = await mesh.serve({ ...db, port: first.port });
  const upstream = { name: "db", ...await mesh.place() };
  await using _web = await mesh.serve({ name: "web", upstreams: [upstream] });
  await waitForEcho(upstream, { greeting: "first" });
  const open = await EchoClient.open(upstream);
  assert.equal(await open.readLine(), "first");
  const config = { max_inbound_connections: 2 };
  await mesh.register({ ...db, port: second.port, config });
  await waitForEcho(upstream, { greeting: "second" });
  // Until the one before it has left, it is one too many.
  const another = await eventually("another is let in", async () => {
    const client = await EchoClient.open(upstream);
    try {
      return await client.readLine() === "second" && client;
    } catch (error) {
      client.destroy();
      throw error;
    }
  });
  await expectRefused(upstream);
  for (const client of [open, another]) {
    await client.exchange(HELLO);
    await client.finish();
  }
});

async function refuses(place: { readonly host: string; readonly port: number }): Promise<boolean> {
  try {
    (await EchoClient.open(place)).destroy();
    return false;
  } catch {
    return true;
  }
}
