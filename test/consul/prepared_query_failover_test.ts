import test from "node:test";
import { startConsul } from "../kit/mesh/consul.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { eventually } from "../kit/process/process.ts";

test("a prepared query upstream moves to the failover datacenter and back", async () => {
  await using dc1 = await startConsul();
  await using dc2 = await startConsul({ secondaryOf: dc1 });
  await using near = await dc1.echo("dc1");
  await using far = await dc2.echo("dc2");
  await using _near = await dc1.serve({ name: "db", port: near.port });
  await using _far = await dc2.serve({ name: "db", port: far.port });
  await eventually("the query can fail over to dc2", async () => {
    return (await dc1.get<unknown[]>("/v1/health/connect/db?dc=dc2&passing")).length > 0;
  }, { timeoutMs: 60_000 });
  await dc1.preparedQuery({
    Name: "geo-db",
    Service: {
      Service: "db",
      Connect: true,
      OnlyPassing: true,
      Failover: { Datacenters: ["dc2"] },
    },
  });
  const upstream = { name: "geo-db", type: "prepared_query" as const, ...await dc1.place() };
  await using _web = await dc1.serve({ name: "web", upstreams: [upstream] }, {
    args: ["-prepared-query-interval", "1s"],
  });

  await waitForEcho(upstream, { greeting: "dc1" });
  await dc1.setMaintenance("db-1-sidecar-proxy", true);
  await waitForEcho(upstream, { greeting: "dc2" });
  await dc1.setMaintenance("db-1-sidecar-proxy", false);
  await waitForEcho(upstream, { greeting: "dc1" });
});
