import test from "node:test";
import { startConsul } from "../kit/consul.ts";
import { startEcho, waitForEcho } from "../kit/echo.ts";
import { serve } from "../kit/mesh.ts";
import { freePort } from "../kit/ports.ts";

test("failover sends new connections to the next service and back", async () => {
  await using server = await startConsul();
  await using db = await startEcho({ host: server.host, greeting: "db\n" });
  await using backup = await startEcho({ host: server.host, greeting: "backup\n" });
  await using _db = await serve(server, db, { name: "db" });
  await using _backup = await serve(server, backup, { name: "db-backup" });
  await server.configEntry({
    Kind: "service-resolver",
    Name: "db",
    Failover: { "*": { Service: "db-backup" } },
  });
  const upstream = { host: server.host, port: await freePort(server.host) };
  await using _web = await serve(server, undefined, {
    name: "web",
    upstreams: [{ name: "db", port: upstream.port }],
  });

  await waitForEcho(upstream, { greeting: "db" });
  await server.setMaintenance("db-1-sidecar-proxy", true);
  await waitForEcho(upstream, { greeting: "backup" });
  await server.setMaintenance("db-1-sidecar-proxy", false);
  await waitForEcho(upstream, { greeting: "db" });
});

test("subsets, default subset and redirect follow the resolver live", async () => {
  await using server = await startConsul();
  await using one = await startEcho({ host: server.host, greeting: "one\n" });
  await using two = await startEcho({ host: server.host, greeting: "two\n" });
  await using other = await startEcho({ host: server.host, greeting: "other\n" });
  await using _one = await serve(server, one, { name: "db", id: "db-1", meta: { version: "v1" } });
  await using _two = await serve(server, two, { name: "db", id: "db-2", meta: { version: "v2" } });
  await using _other = await serve(server, other, { name: "other" });
  const resolver = (defaultSubset: string) => ({
    Kind: "service-resolver",
    Name: "db",
    DefaultSubset: defaultSubset,
    Subsets: {
      v1: { Filter: "Service.Meta.version == v1" },
      v2: { Filter: "Service.Meta.version == v2" },
    },
  });
  await server.configEntry(resolver("v1"));
  const upstream = { host: server.host, port: await freePort(server.host) };
  await using _web = await serve(server, undefined, {
    name: "web",
    upstreams: [{ name: "db", port: upstream.port }],
  });

  await waitForEcho(upstream, { greeting: "one" });
  await server.configEntry(resolver("v2"));
  await waitForEcho(upstream, { greeting: "two" });
  await server.configEntry({
    Kind: "service-resolver",
    Name: "db",
    Redirect: { Service: "other" },
  });
  await waitForEcho(upstream, { greeting: "other" });
});
