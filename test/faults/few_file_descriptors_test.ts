import test from "node:test";
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { startConsul } from "../kit/mesh/consul.ts";
import { processorMs } from "../kit/process/memory.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { eventually, pause } from "../kit/process/process.ts";

test("without file descriptors left it waits, without spinning, and goes on afterwards", async () => {
  await using server = await startConsul();
  await using pair = await startMeshPair(server, {
    both: { under: ["prlimit", "--nofile=120:120"] },
  });
  await waitForEcho(pair.upstream);
  const { web } = pair;
  const sockets: Socket[] = [];
  for (let i = 0; i < 300; i++) {
    const socket = connect({ host: pair.upstream.host, port: pair.upstream.port });
    socket.on("error", () => {});
    sockets.push(socket);
  }
  await web.process.waitFor(/code=overloaded/, { timeoutMs: 60_000 });
  await pause(1_000);
  assert.equal(web.process.ended, undefined, "it died");
  // A slow machine takes a while to refuse all of them; who spins never rests.
  await eventually("it rests", async () => {
    const before = await processorMs(web.pid);
    await pause(3_000);
    const used = await processorMs(web.pid) - before;
    if (used < 1_500) return true;
    throw new Error(`used ${used} ms of processor time in 3 s of waiting`);
  });
  for (const socket of sockets) socket.destroy();
  await waitForEcho(pair.upstream);
});
