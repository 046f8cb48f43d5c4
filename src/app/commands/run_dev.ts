/** `postern dev`: an agent in memory, and with `-demo` a whole mesh on it. @module */

import process from "node:process";
import {
  type Address,
  formatAddress,
  type LevelHolder,
  type Log,
  type LogLevel,
  ProxyError,
  systemClock,
  systemRandom,
} from "../../base/mod.ts";
import { type DevAgent, startDevAgent } from "../../dev/mod.ts";
import { createLogOutput, createLogWriter } from "../log/log_output.ts";
import { onSignals } from "../process/signals.ts";
import { runDemo } from "./demo.ts";

export interface DevOptions {
  /** Address of the agent's HTTP API; port 0 takes a free one. */
  readonly listen: Extract<Address, { kind: "tcp" }>;
  /** The port is the default: where it is in use, any free port will do. */
  readonly elsewhere: boolean;
  readonly datacenter: string;
  readonly defaultPolicy: "allow" | "deny";
  /** Absent: requests need no token. */
  readonly token?: string;
  /** Also start the demonstration mesh. */
  readonly demo: boolean;
  readonly logLevel: LogLevel;
  readonly logJson: boolean;
}

/** Runs until a signal; returns the exit code. */
export async function runDev(options: DevOptions): Promise<number> {
  const holder: LevelHolder = { level: options.logLevel };
  const common = { clock: systemClock, json: options.logJson };
  const writer = createLogWriter({ ...common, workers: 0 });
  const log = createLogOutput({ ...common, holder, ring: writer.rings.own, wake: writer.drain });
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  // There is nothing to reload, and a terminal that closes hangs up.
  const signals = onSignals({ stop, reload: stop });
  try {
    const agent = await startAgent(options, log);
    try {
      const { world, address } = agent;
      if (options.demo) {
        const consul = { world, address, name: "an agent in memory", agent: address };
        await runDemo(consul, { stop, stopped, token: options.token });
      } else {
        process.stdout.write(
          `The agent listens on ${address}; nothing is kept when it ends.\n` +
            `Point the Consul CLI and proxies at it:\n\n` +
            `    export CONSUL_HTTP_ADDR=${address}\n\n`,
        );
        await stopped;
      }
    } finally {
      agent.close();
    }
  } finally {
    signals.off();
  }
  return 0;
}

/** Starts the agent on the port of `options`, or on a free one where the default is in use. */
export async function startAgent(options: DevOptions, log: Log): Promise<DevAgent> {
  const { listen, datacenter, defaultPolicy, token } = options;
  const acl = { defaultPolicy: "deny", allowsByDefault: false, token } as const;
  const start = (port: number) =>
    startDevAgent({
      clock: systemClock,
      random: systemRandom,
      log,
      host: listen.host,
      port,
      datacenter,
      defaultIntentionPolicy: defaultPolicy,
      ...token !== undefined && { acl },
    });
  try {
    return await start(listen.port);
  } catch (error) {
    const cause = error instanceof ProxyError && error.cause;
    if (!(cause instanceof Error) || !("code" in cause) || cause.code !== "EADDRINUSE") throw error;
    const taken = formatAddress(listen);
    if (!options.elsewhere) {
      throw new ProxyError(
        "listen_failed",
        `Cannot listen on ${taken}: the address is in use (is a Consul agent running?); give ` +
          "another with -http-addr, port 0 for a free one",
        { cause },
      );
    }
    const agent = await start(0);
    process.stdout.write(`${taken} is in use (a Consul agent, perhaps); a free port is taken.\n`);
    return agent;
  }
}
