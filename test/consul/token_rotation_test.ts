import test from "node:test";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startConsul } from "../kit/consul.ts";
import { startEcho, waitForEcho, waitForRefusal } from "../kit/echo.ts";
import { assertFlawless, Load } from "../kit/load.ts";
import { registerService, serve } from "../kit/mesh.ts";
import { posternSidecar } from "../kit/sidecars.ts";
import { freePort } from "../kit/ports.ts";
import { eventually, pause } from "../kit/process.ts";

test("a new token in the token file takes over from one that is deleted", async () => {
  await using server = await startConsul({ acl: true });
  await using echo = await startEcho({ host: server.host });
  await server.intention("web", "db", "allow");
  await using _db = await serve(server, echo, {
    name: "db",
    token: await server.serviceToken("db"),
  });
  const directory = await mkdtemp(join(tmpdir(), "postern-token-"));
  try {
    const file = join(directory, "token");
    const first = await server.serviceToken("web");
    await writeFile(file, `${first}\n`);
    const web = {
      ...{ name: "web", host: server.host, port: await freePort(server.host) },
      sidecarPort: await freePort(server.host),
    };
    const upstream = { name: "db", host: server.host, port: await freePort(server.host) };
    const later = { name: "cache", host: server.host, port: await freePort(server.host) };
    await using cacheEcho = await startEcho({ host: server.host, greeting: "cache\n" });
    await using _cache = await serve(server, cacheEcho, {
      name: "cache",
      token: await server.serviceToken("cache"),
    });
    await server.intention("web", "cache", "allow");
    const serviceId = await registerService(server, { ...web, upstreams: [upstream] });
    await using sidecar = await posternSidecar(server, { serviceId, args: ["-token-file", file] });
    await waitForEcho(upstream);
    await using load = new Load(upstream);

    // As a secret manager does it: the new file takes the old one's name in one step.
    await writeFile(`${file}.new`, `${await server.serviceToken("web")}\n`);
    await rename(`${file}.new`, file);
    await pause(5_000);
    await server.deleteToken(first);
    await pause(2_000);
    // Chain and endpoints of a new upstream can only be had with a token that is valid now.
    await registerService(server, { ...web, upstreams: [upstream, later] });
    await waitForEcho(later, { greeting: "cache", timeoutMs: 60_000 });
    assertFlawless(await load.stop({ atLeast: 300 }), { atLeast: 300 });
    // Polls that were waiting when the token was deleted may have said so; none may again.
    const said = () => sidecar.output.split("ACL not found").length;
    const saidBefore = await eventually("they have all said so", async () => {
      const before = said();
      await pause(3_000);
      return said() === before && before;
    });
    await server.intention("web", "db", "deny");
    await waitForRefusal(upstream);
    await pause(1_000);
    if (said() > saidBefore) {
      throw new Error(`The deleted token is still in use\n${sidecar.process.tail()}`);
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
