import test from "node:test";
import assert from "node:assert/strict";
import { type Consul, startConsul } from "../kit/consul.ts";
import { EchoClient, startEcho, waitForEcho } from "../kit/echo.ts";
import { registerService, serve } from "../kit/mesh.ts";
import { posternSidecar } from "../kit/sidecars.ts";
import type { Postern } from "../kit/postern.ts";
import { freePort, freePorts } from "../kit/ports.ts";
import { deadline, pause } from "../kit/process.ts";
import { within } from "../kit/starvation.ts";

const SIDECARS = 10;
const UPSTREAMS = 40;
/** What an agent grants one client address. */
const AGENT_LIMIT = 200;

test("10 sidecars with 40 upstreams each share one agent and stay live", async () => {
  await using server = await startConsul();
  await using echo = await startEcho({ host: server.host });
  // One real destination behind all names: what is counted is what the agent is asked.
  await using db = await serve(server, echo, { name: "db" });
  for (let i = 1; i < UPSTREAMS; i++) {
    await server.configEntry({
      Kind: "service-resolver",
      Name: `name-${i}`,
      Redirect: { Service: "db" },
    });
  }
  await using stack = new AsyncDisposableStack();
  const webs: { readonly sidecar: Postern; readonly ports: readonly number[] }[] = [];
  for (let i = 0; i < SIDECARS; i++) {
    const web = await startWeb(server, i);
    webs.push({ sidecar: stack.use(web.sidecar), ports: web.ports });
  }

  for (const { ports } of webs) {
    for (const port of ports) await waitForEcho({ host: server.host, port });
  }
  let most = 0;
  for (let i = 0; i < 50; i++) {
    most = Math.max(most, await server.openConnections());
    await pause(100);
  }
  assert.ok(most <= AGENT_LIMIT * 0.75, `${most} connections to the agent`);

  // With the budget full an intention still has its own poll.
  const first = { host: server.host, port: webs[0]?.ports[0] ?? 0 };
  const open = await EchoClient.open(first);
  await open.exchange(new TextEncoder().encode("hello"));
  await server.intention("*", "db", "deny");
  // Long before a poll without a place of its own would have had its turn.
  const pids = [server.pid, db.pid];
  await within(1_500, { what: "it is closed", pids }, async () => {
    assert.ok(await deadline(open.over, 30_000), "it is open after 30 s");
  });
  open.destroy();
  await server.intention("*", "db", "allow");

  // And a moved target reaches every one of 400 upstreams by its turn.
  await using moved = await startEcho({ host: server.host, greeting: "moved\n" });
  await using _moved = await serve(server, moved, { name: "moved" });
  await server.configEntry({
    Kind: "service-resolver",
    Name: "db",
    Redirect: { Service: "moved" },
  });
  for (const { ports } of webs) {
    for (const port of ports) {
      await waitForEcho({ host: server.host, port }, { greeting: "moved", timeoutMs: 60_000 });
    }
  }
});

async function startWeb(
  server: Consul,
  number: number,
): Promise<{ readonly sidecar: Postern; readonly ports: readonly number[] }> {
  const ports = await freePorts(server.host, UPSTREAMS);
  const serviceId = await registerService(server, {
    ...{ name: `web-${number}`, host: server.host, port: await freePort(server.host) },
    sidecarPort: await freePort(server.host),
    upstreams: ports.map((port, i) => ({ name: i === 0 ? "db" : `name-${i}`, port })),
  });
  return { sidecar: await posternSidecar(server, { serviceId }), ports };
}
