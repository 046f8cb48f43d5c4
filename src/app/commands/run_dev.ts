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
  const agent = await startAgent(options, log);
  try {
    if (options.demo) {
      await runDemo(agent, { stop, stopped, token: options.token });
    } else {
      process.stdout.write(
        `The agent listens on ${agent.address}; nothing is kept when it ends.\n` +
          `Point the Consul CLI and proxies at it:\n\n` +
          `    export CONSUL_HTTP_ADDR=${agent.address}\n\n`,
      );
      await stopped;
    }
  } finally {
    await agent.close();
    signals.off();
  }
  return 0;
}

/** Where `options` say, or on a free port where they leave it open, which is told. */
export async function startAgent(options: DevOptions, log: Log): Promise<DevAgent> {
  const { listen, elsewhere, datacenter, defaultPolicy, token } = options;
  const start = (port: number) =>
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
    });
  try {
    return await start(listen.port);
  } catch (error) {
    if (!(error instanceof ProxyError) || codeOf(error.cause) !== "EADDRINUSE") throw error;
    const taken = formatAddress(listen);
    if (!elsewhere) {
      throw new ProxyError(
        "listen_failed",
        `Cannot listen on ${taken}: the address is in use (is a Consul agent running?); give ` +
          "another with -http-addr, port 0 for a free one",
        { cause: error.cause },
      );
    }
    const agent = await start(0);
    process.stdout.write(
      `${taken} is in use (a Consul agent, perhaps); this one is on ${agent.address}.\n`,
    );
    return agent;
  }
}

function codeOf(cause: unknown): string | undefined {
  return (cause as { code?: string } | undefined)?.code;
}
