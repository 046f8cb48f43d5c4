import { strict as assert } from "node:assert";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { loopbackHost } from "../../../test/kit/process/ports.ts";
import { createLog, ProxyError, seededRandom, systemClock } from "../../base/mod.ts";
import { startDevServers } from "../../dev/mod.ts";
import { parseCommand } from "../command_line/args.ts";
import { obey, obeyLines, serversIntroduction, startServers } from "./dev_servers.ts";

const LOG = createLog({ clock: systemClock, write: () => {}, holder: { level: "error" } });

function options(...argv: readonly string[]) {
  const command = parseCommand(["dev", ...argv], {});
  assert.ok(command.kind === "dev");
  return command.options;
}

test("startServers() takes addresses in a row, with the same ports on each", async () => {
  const first = loopbackHost().replace(/\d+$/, "7");
  const servers = await startServers(options("-http-addr", `${first}:0`, "-servers", "2"), LOG);
  try {
    assert.deepEqual(servers.hosts, [first, first.replace(/7$/, "8")]);
    const text = serversIntroduction(servers);
    assert.match(text, new RegExp(`-servers ${first},\\S+ -tls-disabled -http-port \\d+`));
    assert.equal(servers.servers[0]?.httpPort, servers.servers[1]?.httpPort);
    assert.equal(servers.servers[0]?.grpcPort, servers.servers[1]?.grpcPort);
  } finally {
    servers.close();
  }
  for (const host of ["localhost", "127.0.0.254"]) {
    await assert.rejects(
      async () => await startServers(options("-http-addr", `${host}:0`, "-servers", "3"), LOG),
      (error) => error instanceof ProxyError && error.code === "usage",
    );
  }
});

test("lines on standard input do to servers what they say", async () => {
  const clock = new FakeClock();
  const hosts = [loopbackHost(), loopbackHost(), loopbackHost()];
  await using servers = await startDevServers({ clock, random: seededRandom(1), hosts });
  for (const [line, want] of [["hang 2", "hung"], ["resume 2", "running"], ["kill 2", "stopped"]]) {
    assert.match(await obey(servers, line ?? ""), /^Server 2 \(127\.[\d.]+\): /);
    assert.equal(servers.stateOf(1), want);
  }
  for (const line of ["kill", "kill 0", "kill 4", "kill 1 2", "stop 1", "elect 1"]) {
    assert.match(await obey(servers, line), /^Want kill N/);
  }
  assert.equal(servers.stateOf(0), "running");
  await obey(servers, "restart 2");
  assert.equal(servers.stateOf(1), "running");

  const input = new PassThrough();
  const said: string[] = [];
  const stop = obeyLines(servers, input, (text) => said.push(text));
  input.write("kill ");
  input.write("1\n\n");
  await clock.advance(3_000);
  assert.deepEqual(said, [
    "Nobody leads.",
    `Server 1 (${hosts[0]}): dead; restart brings it back.`,
    "Server 2 leads.",
  ]);
  stop();
});
