/**
 * `postern dev`: an agent in memory to develop and test against, and with `-demo` a whole mesh on it.
 *
 * @module
 */

import process from "node:process";
import {
  formatAddress,
  type LevelHolder,
  type Log,
  ProxyError,
  systemClock,
  systemRandom,
} from "../../base/mod.ts";
import { type DevAgent, startDevAgent } from "../../dev/mod.ts";
import type { DevOptions } from "../command_line/args.ts";
import { obeyLines, serversIntroduction, startServers } from "./dev_servers.ts";
import { runDemo } from "./demo.ts";
import { createLogOutput, createLogWriter } from "../log/log_output.ts";
import { onSignals } from "../process/signals.ts";

/** Runs until a signal; the exit code. */
export async function runDev(options: DevOptions): Promise<number> {
  const holder: LevelHolder = { level: options.logLevel };
  const common = { clock: systemClock, json: options.logJson };
  const writer = createLogWriter({ ...common, workers: 0 });
  const log = createLogOutput({ ...common, holder, ring: writer.rings.own, wake: writer.drain });
  let stop = () => {};
  const stopped = new Promise<void>((resolve) => stop = resolve);
  const signals = onSignals({ stop, reload: () => {} });
  try {
    if (options.servers > 0) await playServers(options, { log, stop, stopped });
    else await playAgent(options, { log, stop, stopped });
  } finally {
    signals.off();
  }
  return 0;
}

interface Play {
  readonly log: Log;
  readonly stop: () => void;
  readonly stopped: Promise<void>;
}

async function playAgent(options: DevOptions, { log, stop, stopped }: Play): Promise<void> {
  const agent = await startAgent(options, log);
  try {
    if (options.demo) return await runDemo(agent, { stop, stopped, token: options.token });
    process.stdout.write(
      `The agent listens on ${agent.address}; nothing is kept when it ends.\n` +
        `Point the Consul CLI and proxies at it:\n\n` +
        `    export CONSUL_HTTP_ADDR=${agent.address}\n\n`,
    );
    await stopped;
  } finally {
    agent.close();
  }
}

async function playServers(options: DevOptions, { log, stop, stopped }: Play): Promise<void> {
  const servers = await elsewhereIfTaken(options, (port) => startServers(options, log, port));
  try {
    if (options.demo) return await runDemo(servers, { stop, stopped, token: options.token });
    process.stdout.write(serversIntroduction(servers));
    const off = obeyLines(servers, process.stdin, (text) => process.stdout.write(`${text}\n`));
    await stopped;
    off();
  } finally {
    servers.close();
  }
}

/** On a port that `options` say, or on a free one where they leave it open, which is told. */
export function startAgent(options: DevOptions, log: Log): Promise<DevAgent> {
  const { listen, datacenter, defaultPolicy, token } = options;
  return elsewhereIfTaken(options, (port) =>
    startDevAgent({
      clock: systemClock,
      random: systemRandom,
      log,
      host: listen.host,
      port,
      datacenter,
      defaultIntentionPolicy: defaultPolicy,
      ...(token !== undefined && {
        acl: { defaultPolicy: "deny", tokens: [{ secretId: token, management: true }] },
      }),
    }));
}

/** Two ports of several addresses, where there are servers. */
function placesOf({ listen, servers }: DevOptions): string {
  if (servers === 0) return formatAddress(listen);
  return `${formatAddress(listen)}, the port for gRPC, or one of them on the addresses that follow`;
}

async function elsewhereIfTaken<T>(
  options: DevOptions,
  start: (port: number) => Promise<T>,
): Promise<T> {
  try {
    return await start(options.listen.port);
  } catch (error) {
    if (!(error instanceof ProxyError) || codeOf(error.cause) !== "EADDRINUSE") throw error;
    const taken = placesOf(options);
    if (!options.elsewhere) {
      throw new ProxyError(
        "listen_failed",
        `Cannot listen on ${taken}: the address is in use (is a Consul agent running?); give ` +
          "another with -http-addr, port 0 for a free one",
        { cause: error.cause },
      );
    }
    const started = await start(0);
    process.stdout.write(`${taken} is in use (a Consul agent, perhaps); free ports are taken.\n`);
    return started;
  }
}

function codeOf(cause: unknown): string | undefined {
  return (cause as { code?: string } | undefined)?.code;
}
