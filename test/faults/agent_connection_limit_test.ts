import test from "node:test";
import { connect, type Socket } from "node:net";
import { startConsul } from "../kit/consul.ts";
import { waitForEcho } from "../kit/echo.ts";
import { startPair } from "../kit/mesh.ts";
import { startPostern } from "../kit/postern.ts";
import { pause } from "../kit/process.ts";

test("an agent whose connections others have used up is waited for", async () => {
  await using server = await startConsul();
  await using pair = await startPair(server);
  await waitForEcho(pair.upstream);
  await pair.posterns.web.stop();

  // The agent's 200 connections per client address, taken by something else on this host: whoever
  // comes now gets a 429 before it asked anything.
  const [host = "", port = ""] = server.address.split(":");
  const sockets: Socket[] = [];
  for (let i = 0; i < 250; i++) {
    const socket = connect({ host, port: Number(port) });
    socket.on("error", () => {});
    socket.resume();
    sockets.push(socket);
  }
  await pause(1_000);
  await using web = startPostern(
    ["proxy", "-proxy-id", "web-1-sidecar-proxy", "-admin-bind", "127.0.0.1:0"],
    { env: { CONSUL_HTTP_ADDR: server.address } },
  );
  await web.process.waitFor(/429|too many concurrent connections/i, { timeoutMs: 20_000 });
  for (const socket of sockets) socket.destroy();
  await web.waitReady({ timeoutMs: 30_000 });
  await waitForEcho(pair.upstream);
});
