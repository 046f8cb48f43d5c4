/**
 * A registration that changes touches only the changed parts; one that goes away touches nothing.
 */

import assert from "node:assert/strict";
import test from "node:test";
import { EchoClient, expectRefused, waitForEcho } from "../kit/wire/echo.ts";
import type { Agents, Mesh } from "../kit/mesh/mesh.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { eventually } from "../kit/process/process.ts";

const HELLO = new TextEncoder().encode("hello");

export function changedRegistration(agents: Agents): void {
  const start = () => agents.start({ defaultIntentionPolicy: "allow" });

  test("upstreams that come, move and go leave the others' connections alone", async () => {
    await using mesh = await start();
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
    // When the sidecar has ended, all its output has been written.
    await sidecar.stop();
    const started = [...sidecar.output.matchAll(/listener started[^\n]*listener=(\S+)/g)];
    const names = started.map(([, name]) => name?.split("/").at(-1));
    // One each for what never changed.
    assert.deepEqual(names.sort(), ["cache", "cache", "db", "inbound"]);
  });

  test("a public port, an application's and a limit that change are for new connections", async () => {
    await using mesh = await start();
    await using first = await mesh.echo("first");
    await using second = await mesh.echo("second");
    const [oldAt, newAt] = [await mesh.place(), await mesh.place()];
    await using _db = await mesh.serve({ name: "db", port: first.port, sidecarPort: oldAt.port });
    const upstream = { name: "db", ...await mesh.place() };
    await using _web = await mesh.serve({ name: "web", upstreams: [upstream] });
    await waitForEcho(upstream, { greeting: "first" });
    const open = await opened(mesh, upstream.port, "first");

    await mesh.register({ name: "db", port: first.port, sidecarPort: newAt.port });
    await eventually("the old port is given up", () => refuses(oldAt));
    await waitForEcho(upstream, { greeting: "first" });
    await open.exchange(HELLO);

    const config = { max_inbound_connections: 2 };
    await mesh.register({ name: "db", port: second.port, sidecarPort: newAt.port, config });
    await waitForEcho(upstream, { greeting: "second" });
    // Until the one before it has left, it is one too many.
    const another = await eventually("another is let in", () => {
      return opened(mesh, upstream.port, "second");
    });
    await expectRefused(upstream);
    for (const client of [open, another]) {
      await client.exchange(HELLO);
      await client.finish();
    }
  });

  test("a registration that goes away keeps the last good state and is reported", async () => {
    await using mesh = await start();
    await using pair = await startMeshPair(mesh);
    await waitForEcho(pair.upstream);
    const open = await EchoClient.open(pair.upstream);
    await open.exchange(HELLO);
    await mesh.deregister("web-1-sidecar-proxy");
    await pair.web.process.waitFor(/\[WARN\][^\n]*(web-1-sidecar-proxy|registration)/, {
      timeoutMs: 60_000,
    });
    await open.exchange(HELLO);
    await waitForEcho(pair.upstream);
    await pair.registerAgain();
    await waitForEcho(pair.upstream);
    await open.finish();
  });
}

/** A connection on which `greeting` arrived. */
async function opened({ host }: Mesh, port: number, greeting: string): Promise<EchoClient> {
  const client = await EchoClient.open({ host, port });
  try {
    assert.equal(await client.readLine(), greeting);
    return client;
  } catch (error) {
    client.destroy();
    throw error;
  }
}

async function refuses(place: { readonly host: string; readonly port: number }): Promise<boolean> {
  try {
    (await EchoClient.open(place)).destroy();
    return false;
  } catch {
    return true;
  }
}
