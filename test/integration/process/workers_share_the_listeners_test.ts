import test from "node:test";
import assert from "node:assert/strict";
import { runPostern } from "../../kit/dev_mesh.ts";
import { EchoClient, waitForEcho } from "../../kit/echo.ts";
import { createFileMesh } from "../../kit/file_mesh.ts";
import type { Postern } from "../../kit/postern.ts";
import { eventually } from "../../kit/process.ts";

const HELLO = new TextEncoder().encode("hello");

test("two workers serve the same ports, and the admin server sees both", async () => {
  await using mesh = await createFileMesh();
  await using web = runPostern([...mesh.args, "-workers", "2"]);
  await web.waitReady();
  await waitForEcho(mesh.upstream);
  const clients: EchoClient[] = [];
  let workers: readonly string[] = [];
  // The kernel deals them out by a hash of the ports.
  for (let turn = 0; turn < 64 && workers.length < 2; turn++) {
    const client = await EchoClient.open(mesh.upstream);
    clients.push(client);
    await client.exchange(HELLO);
    workers = await workersWith(web, "inbound");
  }
  assert.deepEqual(workers, ["0", "1"]);
  // A worker that gets no processor for a second is left out of an answer.
  await eventually("both workers' connections are counted", async () => {
    return await web.metric("postern_connections_active") === 2 * clients.length;
  });
  const listeners = (await web.admin("/listeners")).body.trimEnd().split("\n");
  assert.equal(listeners.length, 2);

  for (const client of clients) await client.finish();
  assert.equal((await web.stop()).code, 0);
  assert.doesNotMatch(web.output, /data worker died/);
});

test("no worker serves in the main thread", async () => {
  await using mesh = await createFileMesh();
  await using web = runPostern([...mesh.args, "-workers", "0"]);
  await web.waitReady();
  await waitForEcho(mesh.upstream);
  const open = await EchoClient.open(mesh.upstream);
  await open.exchange(HELLO);
  await eventually("the main thread has it", async () => {
    return (await workersWith(web, "inbound")).join() === "0";
  });
  web.kill("SIGTERM");
  await open.finish();
  assert.equal((await web.process.waitExit({ timeoutMs: 20_000 })).code, 0);
});

/** Numbers of the workers that have such a connection, sorted. */
async function workersWith(postern: Postern, direction: string): Promise<readonly string[]> {
  const { connections } = JSON.parse((await postern.admin("/connections")).body) as {
    readonly connections: readonly { readonly id: string; readonly direction: string }[];
  };
  const ids = connections.filter((one) => one.direction === direction).map(({ id }) => id);
  return [...new Set(ids.map((id) => id.split("-")[0] ?? ""))].sort();
}
