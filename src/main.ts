/**
 * argv in, exit code out: 0 done, 1 failed, 2 usage or configuration error (nothing was started).
 *
 * @module
 */

import process from "node:process";
import { type Command, parseCommand } from "./app/args.ts";
import { checkEnvironment } from "./app/environment.ts";
import { helpText } from "./app/help.ts";
import { IS_COMPILED, versionLine } from "./app/version.ts";
import { messageOf, ProxyError } from "./base/mod.ts";
import { runtimeEngine } from "./net/mod.ts";

const USAGE_CODES = new Set(["usage", "config_invalid", "unsupported"]);

/** A command's code is loaded when it is run: a proxy carries no memory of the others. */
async function run(command: Command): Promise<number> {
  switch (command.kind) {
    case "help":
      process.stdout.write(helpText(command.topic));
      return 0;
    case "version":
      process.stdout.write(`${versionLine(runtimeEngine().name)}\n`);
      return 0;
    case "proxy":
      return await (await import("./app/run_proxy.ts")).runProxy(command.options);
    case "check":
      return await (await import("./app/run_check.ts")).runCheck(command.options);
    case "wait_ready":
      return await (await import("./app/wait_ready.ts")).runWaitReady(command);
    case "dev":
      return await (await import("./app/run_dev.ts")).runDev(command.options);
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
