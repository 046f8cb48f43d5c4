import test from "node:test";
import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startConsul } from "../kit/mesh/consul.ts";
import { freePort } from "../kit/process/ports.ts";
import { eventually } from "../kit/process/process.ts";

test("an application and an upstream on unix sockets", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-sockets-"));
  const appPath = join(directory, "db.sock");
  const upstreamPath = join(directory, "upstream.sock");
  const app = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => app.listen(appPath, () => resolve()));
  try {
    await using server = await startConsul({ acl: true });
    const sidecar = async (name: string, proxy: Readonly<Record<string, unknown>>) => {
      await server.put("/v1/agent/service/register", {
        Name: name,
        ID: `${name}-1`,
        Address: server.host,
        Connect: {
          SidecarService: {
            Port: await freePort(server.host),
            Checks: [{ Name: "alias", AliasService: `${name}-1`, Status: "passing" }],
            Proxy: proxy,
          },
        },
      });
      return await server.sidecar(`${name}-1`, await server.ownToken(name));
    };
    await server.intention("web", "db", "allow");
    await using _db = await sidecar("db", { LocalServiceSocketPath: appPath });
    await using _web = await sidecar("web", {
      Upstreams: [{
        DestinationName: "db",
        LocalBindSocketPath: upstreamPath,
        LocalBindSocketMode: "0600",
      }],
    });
    await eventually("bytes through both sockets", async () => {
      return await roundTrip(upstreamPath, "hello") === "hello";
    });
    assert.equal((await stat(upstreamPath)).mode & 0o777, 0o600);
  } finally {
    app.close();
    await rm(directory, { recursive: true, force: true });
  }
});

function roundTrip(path: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect({ path, allowHalfOpen: true });
    socket.setEncoding("utf8").on("data", (chunk: string) => answer += chunk);
    socket.setTimeout(5_000, () => socket.destroy(new Error("no answer")));
    socket.on("error", reject);
    socket.on("end", () => {
      socket.destroy();
      resolve(answer);
    });
    socket.end(text);
  });
}
