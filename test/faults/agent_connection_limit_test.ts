import test from "node:test";
import { connect, type Socket } from "node:net";
import { startConsul } from "../kit/mesh/consul.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { startPostern } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";

test("a proxy waits for an agent whose connections others have used up", async () => {
  await using server = await startConsul();
  await using pair = await startMeshPair(server);
  await waitForEcho(pair.upstream);
  await pair.web.stop();

  // The agent's 200 connections per client address, all taken by another program on this host: a new
  // connection gets a 429 before it asked anything.
  const [host = "", port = ""] = server.address.split(":");
  const sockets = new Set<Socket>();
  let isTaking = true;
  let refused = 0;
  const take = () => {
    const socket = connect({ host, port: Number(port) });
    socket.on("error", () => {});
    socket.on("close", () => {
      sockets.delete(socket);
      refused++;
      // A connection that another client gave up a moment ago is taken, too.
      if (isTaking) setTimeout(take, 200);
    });
    socket.resume();
    sockets.add(socket);
  };
  for (let i = 0; i < 210; i++) take();
  // Ten and more are always on their way: twice as many in a row say that nothing is left.
  await eventually("nothing is left", () => refused > 20);
  await using web = startPostern(
    ["proxy", "-proxy-id", "web-1-sidecar-proxy", "-admin-bind", "127.0.0.1:0"],
    { env: { CONSUL_HTTP_ADDR: server.address } },
  );
  await web.process.waitFor(/429|too many concurrent connections/i, { timeoutMs: 60_000 });
  isTaking = false;
  for (const socket of sockets) socket.destroy();
  await web.waitReady();
  await waitForEcho(pair.upstream);
});
