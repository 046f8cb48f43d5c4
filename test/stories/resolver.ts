/** A service's resolver and a prepared query decide about new connections, live. */

import test from "node:test";
import { waitForEcho } from "../kit/wire/echo.ts";
import type { Agents } from "../kit/mesh/mesh.ts";

export function resolver(agents: Agents): void {
  test("failover, subsets, redirects and prepared queries are followed live", async (t) => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    await using one = await mesh.echo("one");
    await using two = await mesh.echo("two");
    await using backup = await mesh.echo("backup");
    const version = (name: string) => ({ name: "db", meta: { version: name } });
    await using _one = await mesh.serve({ ...version("v1"), id: "db-1", port: one.port });
    await using _two = await mesh.serve({ ...version("v2"), id: "db-2", port: two.port });
    await using _backup = await mesh.serve({ name: "backup", port: backup.port });
    const db = { name: "db", ...await mesh.place() };
    const query = { name: "any-db", type: "prepared_query" as const, ...await mesh.place() };
    await mesh.preparedQuery({
      Name: "any-db",
      Service: { Service: "db", Connect: true, OnlyPassing: true },
    });
    await using _web = await mesh.serve({ name: "web", upstreams: [db, query] }, {
      args: ["-prepared-query-interval", "1s"],
    });
    const resolve = (rest: Readonly<Record<string, unknown>>) =>
      mesh.configEntry({
        Kind: "service-resolver",
        Name: "db",
        Subsets: {
          v1: { Filter: "Service.Meta.version == v1" },
          v2: { Filter: "Service.Meta.version == v2" },
        },
        ...rest,
      });
    const maintenance = (number: 1 | 2, enable: boolean) =>
      mesh.setMaintenance(`db-${number}-sidecar-proxy`, enable);
    const answers = (greeting: string) => waitForEcho(db, { greeting });

    await t.test("the default subset moves", async () => {
      await resolve({ DefaultSubset: "v1" });
      await answers("one");
      await resolve({ DefaultSubset: "v2" });
      await answers("two");
    });

    for (
      const [where, Failover, greeting] of [
        ["another service", { "*": { Service: "backup" } }, "backup"],
        ["another subset", { v1: { ServiceSubset: "v2" } }, "two"],
      ] as const
    ) {
      await t.test(`failover goes to ${where} and comes back`, async () => {
        await resolve({ DefaultSubset: "v1", Failover });
        await answers("one");
        await maintenance(1, true);
        await answers(greeting);
        await maintenance(1, false);
        await answers("one");
      });
    }

    await t.test("a redirect goes elsewhere, and its removal back", async () => {
      const Redirect = { Service: "backup" };
      await mesh.configEntry({ Kind: "service-resolver", Name: "db", Redirect });
      await answers("backup");
      await resolve({ DefaultSubset: "v2" });
      await answers("two");
    });

    await t.test("a prepared query is executed again", async () => {
      await maintenance(1, true);
      await waitForEcho(query, { greeting: "two" });
      await maintenance(1, false);
      await maintenance(2, true);
      await waitForEcho(query, { greeting: "one" });
    });
  });
}
