/**
 * `deno task demo`: the demonstration mesh of `postern dev -demo` from the sources. With `-servers N` it runs
 * without an agent, on servers in memory, and a key kills the one that leads.
 *
 *     node_modules/bun/bin/bun.exe scripts/demo.ts [-servers N]
 *
 * @module
 */

import process from "node:process";
import { runCommandLine } from "../src/app/mod.ts";
import { runDemo } from "../src/app/commands/demo.ts";
import { onSignals } from "../src/app/process/signals.ts";
import { systemClock, systemRandom } from "../src/base/mod.ts";
import { type DevServers, startDevServers } from "../test/kit/dev_agent/servers/dev_servers.ts";

/** Longer than an election takes, so that one can watch it. */
const RESTART_MS = 10_000;
const MOST_SERVERS = 5;

async function runOnServers(count: number): Promise<void> {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const signals = onSignals({ stop, reload: () => {} });
  const servers = await startDevServers({ clock: systemClock, random: systemRandom, count });
  const { world, address, hosts, httpPort, grpcPort, node } = servers;
  try {
    await runDemo({
      world,
      address,
      name: `${count} servers in memory, without an agent`,
      sidecarArgs: [
        "-servers",
        hosts.join(","),
        "-tls-disabled",
        "-http-port",
        String(httpPort),
        "-grpc-port",
        String(grpcPort),
        "-node",
        node,
      ],
      status: () => `servers ${statesOf(servers).join(", ")}`,
      key: {
        letter: "l",
        does: `kill the server that leads; it is back after ${RESTART_MS / 1_000} s`,
        press: () => killLeader(servers),
      },
    }, { stop, stopped, token: undefined });
  } finally {
    servers.close();
    signals.off();
  }
}

function statesOf(servers: DevServers): readonly string[] {
  return servers.hosts.map((_host, server) =>
    servers.stateOf(server) !== "running" ? "dead" : servers.leader === server ? "leads" : "follows"
  );
}

function killLeader(servers: DevServers): void {
  const { leader } = servers;
  if (leader === undefined) return;
  servers.kill(leader);
  systemClock.after(RESTART_MS, () => {
    if (!servers.closed) void servers.restart(leader, { empty: true });
  });
}

const args = process.argv.slice(2);
if (args[0] === "-servers") {
  const count = Number(args[1]);
  if (!Number.isInteger(count) || count < 1 || count > MOST_SERVERS || args.length > 2) {
    console.error(`Cannot start the demo: want -servers N with N from 1 to ${MOST_SERVERS}`);
    process.exit(2);
  }
  await runOnServers(count);
  process.exit(0);
}
const demo = ["dev", "-demo", "-http-addr", "127.0.0.1:0", "-log-level", "error"];
process.exit(await runCommandLine([...demo, ...args], process.argv0));
