import test from "node:test";
import { startConsul } from "../kit/consul.ts";
import { EchoClient, startEcho, waitForEcho } from "../kit/echo.ts";
import { assertFlawless, Load } from "../kit/load.ts";
import { registerService, serve } from "../kit/mesh.ts";
import { posternSidecar } from "../kit/sidecars.ts";
import { freePort } from "../kit/ports.ts";
import { eventually, pause } from "../kit/process.ts";

// A long health poll whose token loses its rights ends with "200 []": an empty list that must not be
// believed. The other watches end with 403 sooner or later.
test("a token deleted while running costs no connection and is reported", async () => {
  await using server = await startConsul({ acl: true });
  await using echo = await startEcho({ host: server.host });
  await using _db = await serve(server, echo, {
    name: "db",
    token: await server.serviceToken("db"),
  });
  await server.intention("web", "db", "allow");
  const upstream = { name: "db", host: server.host, port: await freePort(server.host) };
  const serviceId = await registerService(server, {
    ...{ name: "web", host: server.host, port: await freePort(server.host) },
    ...{ sidecarPort: await freePort(server.host), upstreams: [upstream] },
  });
  const token = await server.serviceToken("web");
  await using web = await posternSidecar(server, { serviceId, token });
  await waitForEcho(upstream);
  const open = await EchoClient.open(upstream);
  await using load = new Load(upstream);
  await pause(1_000);
  await server.deleteToken(token);
  await web.process.waitFor(/\[WARN\][^\n]*ACL not found/, { timeoutMs: 60_000 });
  // Wakes the polls that still wait: now they are refused, too.
  await server.setMaintenance("db-1-sidecar-proxy", true);
  await pause(10_000);
  assertFlawless(await load.stop({ atLeast: 500 }), { atLeast: 500 });
  await open.exchange(new TextEncoder().encode("still here"));
  await open.finish();
  await eventually("a metric says that watches fail", async () => {
    return await web.metric("postern_agent_watch_failures_total") > 0;
  });
});
