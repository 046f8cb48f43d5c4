import test from "node:test";
import { DevMesh } from "../../kit/dev_mesh.ts";
import { waitForEcho } from "../../kit/echo.ts";

test("failover, subsets, redirects and prepared queries are followed live", async (t) => {
  await using mesh = await DevMesh.start({ defaultIntentionPolicy: "allow" });
  const { agent } = mesh;
  await using one = await mesh.echo("one");
  await using two = await mesh.echo("two");
  await using backup = await mesh.echo("backup");
  await using _one = await mesh.serve({
    ...{ name: "db", id: "db-1", port: one.port, meta: { version: "v1" } },
  });
  await using _two = await mesh.serve({
    ...{ name: "db", id: "db-2", port: two.port, meta: { version: "v2" } },
  });
  await using _backup = await mesh.serve({ name: "backup", port: backup.port });
  const db = { name: "db", ...await mesh.place() };
  const query = { name: "any-db", type: "prepared_query" as const, ...await mesh.place() };
  agent.putQuery({
    Name: "any-db",
    Service: { Service: "db", Connect: true, OnlyPassing: true },
  });
  await using _web = await mesh.serve({ name: "web", upstreams: [db, query] }, {
    args: ["-prepared-query-interval", "1s"],
  });
  const resolver = (rest: Readonly<Record<string, unknown>>) =>
    agent.setConfigEntry({
      Kind: "service-resolver",
      Name: "db",
      Subsets: {
        v1: { Filter: "Service.Meta.version == v1" },
        v2: { Filter: "Service.Meta.version == v2" },
      },
      ...rest,
    });

  await t.test("the default subset moves", async () => {
    resolver({ DefaultSubset: "v1" });
    await waitForEcho(db, { greeting: "one" });
    resolver({ DefaultSubset: "v2" });
    await waitForEcho(db, { greeting: "two" });
  });

  await t.test("failover goes to another service and comes back", async () => {
    resolver({ DefaultSubset: "v1", Failover: { "*": { Service: "backup" } } });
    await waitForEcho(db, { greeting: "one" });
    agent.maintenance("db-1-sidecar-proxy", true);
    await waitForEcho(db, { greeting: "backup" });
    agent.maintenance("db-1-sidecar-proxy", false);
    await waitForEcho(db, { greeting: "one" });
  });

  await t.test("failover goes to another subset", async () => {
    resolver({ DefaultSubset: "v1", Failover: { v1: { ServiceSubset: "v2" } } });
    await waitForEcho(db, { greeting: "one" });
    agent.maintenance("db-1-sidecar-proxy", true);
    await waitForEcho(db, { greeting: "two" });
    agent.maintenance("db-1-sidecar-proxy", false);
    await waitForEcho(db, { greeting: "one" });
  });

  await t.test("a redirect goes elsewhere, and its removal back", async () => {
    agent.setConfigEntry({
      Kind: "service-resolver",
      Name: "db",
      Redirect: { Service: "backup" },
    });
    await waitForEcho(db, { greeting: "backup" });
    resolver({ DefaultSubset: "v2" });
    await waitForEcho(db, { greeting: "two" });
  });

  await t.test("a prepared query is asked again", async () => {
    agent.maintenance("db-1-sidecar-proxy", true);
    await waitForEcho(query, { greeting: "two" });
    agent.maintenance("db-1-sidecar-proxy", false);
    agent.maintenance("db-2-sidecar-proxy", true);
    await waitForEcho(query, { greeting: "one" });
  });
});
