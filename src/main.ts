/**
 * argv in, exit code out: 0 done, 1 failed, 2 usage or configuration error (nothing was started).
 *
 * @module
 */

import process from "node:process";
import { type Command, parseCommand } from "./app/args.ts";
import { checkEnvironment } from "./app/environment.ts";
import { helpText } from "./app/help.ts";
import { runCheck } from "./app/run_check.ts";
import { runDev } from "./app/run_dev.ts";
import { runProxy } from "./app/run_proxy.ts";
import { IS_COMPILED, versionLine } from "./app/version.ts";
import { waitReady } from "./app/wait_ready.ts";
import { messageOf, ProxyError, systemClock } from "./base/mod.ts";
import { runtimeEngine } from "./net/mod.ts";

const USAGE_CODES = new Set(["usage", "config_invalid", "unsupported"]);

async function run(command: Command): Promise<number> {
  switch (command.kind) {
    case "help":
      process.stdout.write(helpText(command.topic));
      return 0;
    case "version":
      process.stdout.write(`${versionLine(runtimeEngine().name)}\n`);
      return 0;
    case "proxy":
      return await runProxy(command.options);
    case "check":
      for (const line of await runCheck(command.options)) process.stdout.write(`${line}\n`);
      return 0;
    case "wait_ready": {
      const result = await waitReady({ ...command, clock: systemClock });
      if (result.kind === "ready") return 0;
      process.stderr.write(`postern: ${result.message}\n`);
      return 1;
    }
    case "dev":
      return await runDev(command.options);
  }
}

async function main(): Promise<number> {
  try {
    checkEnvironment(process.env, { compiled: IS_COMPILED });
    return await run(parseCommand(process.argv.slice(2), process.env));
  } catch (error) {
    process.stderr.write(`postern: ${messageOf(error)}\n`);
    return error instanceof ProxyError && USAGE_CODES.has(error.code) ? 2 : 1;
  }
}

process.exit(await main());
