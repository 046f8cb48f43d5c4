/** Each change that comes into force is an event with its cause and effect. */

import assert from "node:assert/strict";
import test from "node:test";
import { EchoClient, waitForEcho } from "../kit/wire/echo.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import type { Postern } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";
import { followAdmin } from "../../src/admin/mod.ts";

interface ShownEvent {
  readonly seq: number;
  readonly kind: string;
  readonly text: string;
  readonly effect: string;
  readonly severity: string;
}

async function eventsOf(postern: Postern): Promise<readonly ShownEvent[]> {
  return JSON.parse((await postern.admin("/events")).body).events;
}

/** Waits for the event whose text matches. */
async function eventOf(postern: Postern, text: RegExp): Promise<ShownEvent> {
  let found: ShownEvent | undefined;
  await eventually(`an event ${text}`, async () => {
    found = (await eventsOf(postern)).find((event) => text.test(event.text));
    return found !== undefined;
  });
  assert.ok(found);
  return found;
}

export function events(agents: Agents): void {
  test("changes of intentions, routes and instances are events with their effects", async (t) => {
    await using mesh = await agents.start({});
    await using app = await mesh.echo();
    for (const Name of ["api", "web"]) {
      await mesh.configEntry({ Kind: "service-defaults", Name, Protocol: "http" });
    }
    await mesh.configEntry({
      Kind: "service-resolver",
      Name: "api",
      Subsets: { v1: { Filter: "Service.Meta.version == v1" }, v2: {} },
    });
    const split = (v2: number) =>
      mesh.configEntry({
        Kind: "service-splitter",
        Name: "api",
        Splits: [
          { Weight: 100 - v2, ServiceSubset: "v1" },
          { Weight: v2, ServiceSubset: "v2" },
        ],
      });
    await split(10);
    await mesh.register({ name: "api", id: "api-1", meta: { version: "v1" } });
    await mesh.register({ name: "api", id: "api-2", meta: { version: "v2" } });
    await mesh.intention("web", "db", "allow");
    const [db, api] = [await mesh.place(), await mesh.place()];
    await using dbSidecar = await mesh.serve({ name: "db", port: app.port });
    await using web = await mesh.serve({
      name: "web",
      upstreams: [{ name: "db", port: db.port }, { name: "api", port: api.port }],
    });

    await t.test("a deny names the open connections that it ended", async () => {
      await waitForEcho(db);
      const open = await EchoClient.open(db);
      await open.exchange(new TextEncoder().encode("hello"));
      await mesh.intention("web", "db", "deny");
      const event = await eventOf(dbSidecar, /^web => db changed from allow to deny$/);
      assert.deepEqual([event.kind, event.effect], ["intention", "1 open connection ended"]);
      open.destroy();
      await dbSidecar.process.waitFor(
        /\[INFO\] {2}intention changed subject="web => db" change="[^"]*deny" effect="1 open connection ended"/,
        { timeoutMs: 10_000 },
      );
    });

    await t.test("a splitter that shifts traffic is an event, live", async () => {
      const { host, port } = new URL(`http://${await web.adminAddress()}`);
      const [seen, leaving] = [Promise.withResolvers<ShownEvent>(), new AbortController()];
      const following = followAdmin({ host: host.replace(/:\d+$/, ""), port: Number(port) }, {
        path: "/events?follow&kind=chain&since=1h",
        timeoutMs: 10_000,
        signal: leaving.signal,
        onEvent: (data) => seen.resolve(JSON.parse(data)),
      });
      await split(50);
      const event = await seen.promise;
      assert.equal(event.text, "splitter api: v1 90 % to 50 %, v2 10 % to 50 %");
      leaving.abort();
      assert.equal(await following, undefined);
    });

    await t.test("an instance that fails is ejected, and the callers' requests fail", async () => {
      await eventually("an event of it", async () => {
        const reply = await fetch(`http://${api.host}:${api.port}/`);
        await reply.arrayBuffer();
        assert.equal(reply.status, 503);
        return (await eventsOf(web)).some(({ text }) => /ejected for/.test(text));
      });
      const event = await eventOf(
        web,
        / ejected for 30s: 5 failures in a row, the last: endpoint_/,
      );
      assert.deepEqual([event.kind, event.severity], ["endpoint", "warn"]);
      assert.match(event.effect, /^(?:0 of 1|1 of 2) instances left in balancing$/);
      await eventOf(web, /^requests to api fail with endpoint_refused$/);
    });

    await t.test("an instance that becomes critical names its check", async () => {
      await mesh.setMaintenance("api-2-sidecar-proxy", true);
      const event = await eventOf(web, /^api-2-sidecar-proxy critical \(.*maintenance.*\)$/);
      assert.equal(event.severity, "warn");
      assert.match(event.effect, /^1 usable instance, 2 before$/);
      await mesh.setMaintenance("api-2-sidecar-proxy", false);
      await eventOf(web, /^api-2-sidecar-proxy passing$/);
    });
  });
}
