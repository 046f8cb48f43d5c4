import test from "node:test";
import { startConsul } from "../kit/consul.ts";
import { startEcho, waitForEcho } from "../kit/echo.ts";
import { serve } from "../kit/mesh.ts";
import { freePort } from "../kit/ports.ts";
import { eventually } from "../kit/process.ts";

test("a prepared query upstream moves to the failover datacenter and back", async () => {
  await using dc1 = await startConsul();
  await using dc2 = await startConsul({ secondaryOf: dc1 });
  await using near = await startEcho({ host: dc1.host, greeting: "dc1\n" });
  await using far = await startEcho({ host: dc2.host, greeting: "dc2\n" });
  await using _near = await serve(dc1, near, { name: "db" });
  await using _far = await serve(dc2, far, { name: "db" });
  await eventually("the query can fail over to dc2", async () => {
    return (await dc1.get<unknown[]>("/v1/health/connect/db?dc=dc2&passing")).length > 0;
  }, { timeoutMs: 60_000 });
  const created = await dc1.call("POST", "/v1/query", {
    body: {
      Name: "geo-db",
      Service: {
        Service: "db",
        Connect: true,
        OnlyPassing: true,
        Failover: { Datacenters: ["dc2"] },
      },
    },
  });
  if (created.status !== 200) throw new Error(`Cannot make the query: ${created.body}`);
  const upstream = { host: dc1.host, port: await freePort(dc1.host) };
  await using _web = await serve(dc1, undefined, {
    name: "web",
    upstreams: [{ name: "geo-db", port: upstream.port, type: "prepared_query" }],
    args: ["-prepared-query-interval", "1s"],
  });

  await waitForEcho(upstream, { greeting: "dc1" });
  await dc1.setMaintenance("db-1-sidecar-proxy", true);
  await waitForEcho(upstream, { greeting: "dc2" });
  await dc1.setMaintenance("db-1-sidecar-proxy", false);
  await waitForEcho(upstream, { greeting: "dc1" });
});
