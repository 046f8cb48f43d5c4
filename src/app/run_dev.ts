/**
 * `postern dev`: an agent in memory to develop and test against, and with `-demo` a whole mesh on it.
 *
 * @module
 */

import process from "node:process";
import {
  formatAddress,
  type LevelHolder,
  ProxyError,
  systemClock,
  systemRandom,
} from "../base/mod.ts";
import { startDevAgent } from "../dev/mod.ts";
import type { DevOptions } from "./args.ts";
import { runDemo } from "./demo.ts";
import { createLogOutput, createLogWriter } from "./log_output.ts";
import { onSignals } from "./signals.ts";

/** Runs until a signal; the exit code. */
export async function runDev(options: DevOptions): Promise<number> {
  const { listen, datacenter, defaultPolicy, token } = options;
  const holder: LevelHolder = { level: options.logLevel };
  const common = { clock: systemClock, json: options.logJson };
  const writer = createLogWriter({ ...common, workers: 0 });
  const log = createLogOutput({ ...common, holder, ring: writer.ring, wake: writer.drain });
  let stop = () => {};
  const stopped = new Promise<void>((resolve) => stop = resolve);
  const signals = onSignals({ stop, reload: () => {} });
  const agent = await startDevAgent({
    clock: systemClock,
    random: systemRandom,
    log,
    host: listen.host,
    port: listen.port,
    datacenter,
    defaultIntentionPolicy: defaultPolicy,
    ...(token !== undefined && {
      acl: { defaultPolicy: "deny", tokens: [{ secretId: token, management: true }] },
    }),
  }).catch((error: unknown) => {
    const code = (error as { code?: string }).code;
    if (code !== "EADDRINUSE") throw error;
    throw new ProxyError(
      "listen_failed",
      `Cannot listen on ${
        formatAddress(listen)
      }: the address is in use (is a Consul agent running?); ` +
        "give another with -http-addr, port 0 for a free one",
      { cause: error },
    );
  });
  try {
    if (options.demo) {
      await runDemo(agent, { stop, stopped, token });
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
