import test from "node:test";
import { startConsul } from "../kit/consul.ts";
import { startEcho, waitForEcho } from "../kit/echo.ts";
import { registerService, serve } from "../kit/mesh.ts";
import { startPostern } from "../kit/postern.ts";
import { freePort } from "../kit/ports.ts";

test("an upstream whose port is taken says so, the others work, and it gets it later", async () => {
  await using server = await startConsul();
  await using echo = await startEcho({ host: server.host, greeting: "db\n" });
  await using _db = await serve(server, echo, { name: "db" });
  const free = { name: "db", host: server.host, port: await freePort(server.host) };
  const squatter = await startEcho({ host: server.host });
  const taken = { name: "db2", host: server.host, port: squatter.port };
  await server.configEntry({ Kind: "service-resolver", Name: "db2", Redirect: { Service: "db" } });
  await registerService(server, {
    ...{ name: "web", host: server.host, port: await freePort(server.host) },
    sidecarPort: await freePort(server.host),
    upstreams: [free, taken],
  });
  await using web = startPostern(
    ["proxy", "-sidecar-for", "web-1", "-admin-bind", "127.0.0.1:0"],
    { env: { CONSUL_HTTP_ADDR: server.address } },
  );
  await web.process.waitFor(new RegExp(`${taken.port}[^\\n]*(in use|EADDRINUSE)`), {
    timeoutMs: 60_000,
  });
  await waitForEcho(free, { greeting: "db" });
  await squatter.close();
  await waitForEcho(taken, { greeting: "db", timeoutMs: 120_000 });
});

test("an admin address given by flag that is taken is an error", async () => {
  await using server = await startConsul();
  await using squatter = await startEcho({ host: "127.0.0.1" });
  await registerService(server, {
    ...{ name: "web", host: server.host, port: await freePort(server.host) },
    sidecarPort: await freePort(server.host),
  });
  await using web = startPostern(
    ["proxy", "-sidecar-for", "web-1", "-admin-bind", `127.0.0.1:${squatter.port}`],
    { env: { CONSUL_HTTP_ADDR: server.address } },
  );
  web.expectEnd();
  const { code } = await web.process.waitExit({ timeoutMs: 60_000 });
  if (code === 0) throw new Error("It ended as if all were well");
  await web.process.waitFor(new RegExp(String(squatter.port)), { timeoutMs: 5_000 });
});
