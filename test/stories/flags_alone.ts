/** Without a registration: flags name the service and its upstreams. */

import assert from "node:assert/strict";
import test from "node:test";
import { waitForEcho } from "../kit/wire/echo.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { ready } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";

export function flagsAlone(agents: Agents): void {
  test("flags alone serve, register with a passing check, call, and deregister at the end", async () => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    await using app = await mesh.echo();
    const [listen, upstream] = [await mesh.place(), await mesh.place()];
    await using db = await ready(mesh.run([
      ...["proxy", "-service", "db", "-service-addr", `${app.host}:${app.port}`],
      ...["-listen", `${listen.host}:${listen.port}`, "-register", "-register-id", "x1"],
      ...["-admin-bind", "127.0.0.1:0"],
    ]));
    await eventually("it is registered and passing", async () => {
      const [found, ...more] = await mesh.get<readonly { readonly Service: { ID: string } }[]>(
        "/v1/health/connect/db?passing",
      );
      return more.length === 0 && found?.Service.ID === "db-proxy-x1";
    });
    await using _web = await ready(mesh.run([
      ...["proxy", "-service", "web", "-upstream", `db:${upstream.host}:${upstream.port}`],
      ...["-admin-bind", "127.0.0.1:0"],
    ]));
    await waitForEcho(upstream);
    assert.deepEqual(await db.stop(), { code: 0, signal: null });
    assert.deepEqual(await mesh.get("/v1/agent/services"), {});
  });
}
