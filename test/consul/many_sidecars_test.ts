import test from "node:test";
import assert from "node:assert/strict";
import { startConsul } from "../kit/mesh/consul.ts";
import { EchoClient, waitForEcho } from "../kit/wire/echo.ts";
import { freePorts } from "../kit/process/ports.ts";
import { deadline, pause } from "../kit/process/process.ts";
import { promptly } from "../kit/clock/promptly.ts";

const SIDECARS = 10;
const UPSTREAMS = 40;
/** The number of connections that an agent grants one client address. */
const AGENT_LIMIT = 200;

test("10 sidecars with 40 upstreams each share one agent and stay live", async () => {
  await using server = await startConsul();
  await using echo = await server.echo();
  // One real destination behind all names: the test counts the requests to the agent.
  await using _db = await server.serve({ name: "db", port: echo.port });
  for (let i = 1; i < UPSTREAMS; i++) {
    await server.configEntry({
      Kind: "service-resolver",
      Name: `name-${i}`,
      Redirect: { Service: "db" },
    });
  }
  await using stack = new AsyncDisposableStack();
  const all: number[] = [];
  for (let i = 0; i < SIDECARS; i++) {
    const ports = await freePorts(server.host, UPSTREAMS);
    const upstreams = ports.map((port, i) => ({ name: i === 0 ? "db" : `name-${i}`, port }));
    stack.use(await server.serve({ name: `web-${i}`, upstreams }));
    all.push(...ports);
  }

  for (const port of all) await waitForEcho({ host: server.host, port });
  const crowdedMs = performance.now();
  while (await server.openConnections() > AGENT_LIMIT * 0.75) {
    assert.ok(performance.now() - crowdedMs < 15_000, "those that grew give nothing back");
    await pause(100);
  }
  let most = 0;
  for (let i = 0; i < 50; i++) {
    most = Math.max(most, await server.openConnections());
    await pause(100);
  }
  assert.ok(most <= AGENT_LIMIT * 0.75, `${most} connections to the agent`);

  // With the budget full an intention still has its own poll.
  const first = { host: server.host, port: all[0] ?? 0 };
  // Long before a poll without a place of its own would have had its turn.
  await promptly("an open connection is closed", 1_500, async () => {
    await server.intention("*", "db", "allow");
    await waitForEcho(first);
    const open = await EchoClient.open(first);
    await open.exchange(new TextEncoder().encode("hello"));
    await server.intention("*", "db", "deny");
    const denied = performance.now();
    const over = await deadline(open.over, 30_000);
    open.destroy();
    assert.ok(over !== undefined, "it is open after 30 s");
    return over - denied;
  });
  await server.intention("*", "db", "allow");

  // A moved target reaches every one of 400 upstreams by its turn.
  await using moved = await server.echo("moved");
  await using _moved = await server.serve({ name: "moved", port: moved.port });
  await server.configEntry({
    Kind: "service-resolver",
    Name: "db",
    Redirect: { Service: "moved" },
  });
  for (const port of all) {
    await waitForEcho({ host: server.host, port }, { greeting: "moved", timeoutMs: 60_000 });
  }
});
