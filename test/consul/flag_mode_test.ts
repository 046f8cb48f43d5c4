import test from "node:test";
import assert from "node:assert/strict";
import { startConsul } from "../kit/consul.ts";
import { startEcho, waitForEcho } from "../kit/echo.ts";
import { serve } from "../kit/mesh.ts";
import { startPostern } from "../kit/postern.ts";
import { freePort } from "../kit/ports.ts";
import { eventually } from "../kit/process.ts";

test("-service with -upstream calls into the mesh without a registration", async () => {
  await using server = await startConsul();
  await using echo = await startEcho({ host: server.host });
  await using _db = await serve(server, echo, { name: "db" });
  const upstream = { host: server.host, port: await freePort(server.host) };
  await using web = startPostern([
    ...["proxy", "-service", "web", "-upstream", `db:${upstream.host}:${upstream.port}`],
    ...["-http-addr", server.address, "-admin-bind", "127.0.0.1:0"],
  ]);
  await web.waitReady();
  await waitForEcho(upstream);
});

test("-listen with -register serves, registers itself and deregisters at the end", async () => {
  await using server = await startConsul();
  await using echo = await startEcho({ host: server.host });
  const port = await freePort(server.host);
  await using db = startPostern([
    ...["proxy", "-service", "db", "-service-addr", `${echo.host}:${echo.port}`],
    ...["-listen", `${server.host}:${port}`, "-register", "-register-id", "x1"],
    ...["-http-addr", server.address, "-admin-bind", "127.0.0.1:0"],
  ]);
  await db.waitReady();
  await eventually("it is registered and passing", async () => {
    return (await server.get<unknown[]>("/v1/health/connect/db?passing")).length === 1;
  });
  const upstream = { name: "db", host: server.host, port: await freePort(server.host) };
  await using _web = await serve(server, undefined, { name: "web", upstreams: [upstream] });
  await waitForEcho(upstream);
  assert.equal((await db.stop()).code, 0);
  const left = Object.keys(await server.get<Record<string, unknown>>("/v1/agent/services"));
  assert.deepEqual(left.sort(), ["web-1", "web-1-sidecar-proxy"]);
});
