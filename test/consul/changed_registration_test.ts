import test from "node:test";
import assert from "node:assert/strict";
import { startConsul } from "../kit/consul.ts";
import { EchoClient, startEcho, waitForEcho, waitForRefusal } from "../kit/echo.ts";
import { registerService, serve, startPair } from "../kit/mesh.ts";
import { posternSidecar } from "../kit/sidecars.ts";
import { freePort } from "../kit/ports.ts";
import { pause } from "../kit/process.ts";

const HELLO = new TextEncoder().encode("hello");

test("an upstream that is added, moved or removed leaves the others' connections alone", async () => {
  await using server = await startConsul();
  await using db = await startEcho({ host: server.host, greeting: "db\n" });
  await using cache = await startEcho({ host: server.host, greeting: "cache\n" });
  await using _db = await serve(server, db, { name: "db" });
  await using _cache = await serve(server, cache, { name: "cache" });
  const at = async () => ({ host: server.host, port: await freePort(server.host) });
  const [dbAt, cacheAt, movedAt] = [await at(), await at(), await at()];
  const web = {
    ...{ name: "web", host: server.host, port: await freePort(server.host) },
    sidecarPort: await freePort(server.host),
  };
  const toDb = { name: "db", port: dbAt.port };
  const serviceId = await registerService(server, { ...web, upstreams: [toDb] });
  await using _web = await posternSidecar(server, { serviceId });
  await waitForEcho(dbAt, { greeting: "db" });
  const open = await EchoClient.open(dbAt);
  assert.equal(await open.readLine(), "db");

  const register = (...upstreams: readonly { readonly name: string; readonly port: number }[]) =>
    registerService(server, { ...web, upstreams });
  await register(toDb, { name: "cache", port: cacheAt.port });
  await waitForEcho(cacheAt, { greeting: "cache" });
  await register(toDb, { name: "cache", port: movedAt.port });
  await waitForEcho(movedAt, { greeting: "cache" });
  await waitForRefusal(cacheAt);
  await register(toDb);
  await waitForRefusal(movedAt);
  await open.exchange(HELLO);
  await open.finish();
});

test("a registration that goes away keeps the last good state and is reported", async () => {
  await using server = await startConsul();
  await using pair = await startPair(server);
  await waitForEcho(pair.upstream);
  const { web } = pair.posterns;
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);
  await server.put("/v1/agent/service/deregister/web-1-sidecar-proxy");
  await web.process.waitFor(/\[WARN\][^\n]*(web-1-sidecar-proxy|registration)/, {
    timeoutMs: 60_000,
  });
  await pause(1_000);
  await open.exchange(HELLO);
  await waitForEcho(pair.upstream);
  await pair.registerAgain();
  await waitForEcho(pair.upstream);
  await open.finish();
});

test("an application's new port is used by new connections", async () => {
  await using server = await startConsul();
  await using first = await startEcho({ host: server.host, greeting: "first\n" });
  await using second = await startEcho({ host: server.host, greeting: "second\n" });
  const db = { name: "db", host: server.host, sidecarPort: await freePort(server.host) };
  const serviceId = await registerService(server, { ...db, port: first.port });
  await using _db = await posternSidecar(server, { serviceId });
  const upstream = { name: "db", host: server.host, port: await freePort(server.host) };
  await using _web = await serve(server, undefined, { name: "web", upstreams: [upstream] });
  await waitForEcho(upstream, { greeting: "first" });
  const open = await EchoClient.open(upstream);
  await open.readLine();
  await registerService(server, { ...db, port: second.port });
  await waitForEcho(upstream, { greeting: "second" });
  await open.exchange(HELLO);
  await open.finish();
});
