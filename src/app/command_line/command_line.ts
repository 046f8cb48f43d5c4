/** Runs one command line and gives its exit code. @module */

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import process from "node:process";
import { systemClock } from "../../base/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { type Command, parseCommand } from "./args.ts";
import { checkEnvironment, checkRights } from "./environment.ts";
import { helpText } from "./help.ts";
import { exitCodeOf, lastWords, wantsJson } from "../log/log_output.ts";
import { IS_COMPILED, versionLine } from "../process/version.ts";

/** A command's code is loaded when it is run: a proxy carries no memory of the others. */
async function run(command: Command): Promise<number> {
  switch (command.kind) {
    case "help":
      process.stdout.write(helpText(command.topic, helpWidth(process.stdout.columns)));
      return 0;
    case "version":
      process.stdout.write(`${versionLine(runtimeEngine().name)}\n`);
      return 0;
    case "proxy":
      return await (await import("../process/run_proxy.ts")).runProxy(command.options);
    case "dataplane":
      return await (await import("../consul_dataplane/run_dataplane.ts")).runDataplane(
        command.words,
      );
    case "check":
      return await (await import("../commands/run_check.ts")).runCheck(command);
    case "wait_ready":
      return await (await import("../commands/wait_ready.ts")).runWaitReady(command);
    case "explain":
      return await (await import("../commands/run_explain.ts")).runExplain(command.options);
    case "explain_code":
      return (await import("../commands/run_explain.ts")).explainCode(command.code);
    case "events":
      return await (await import("../commands/run_events.ts")).runEvents(command.options);
    case "doctor":
      return await (await import("../commands/doctor/run_doctor.ts")).runDoctor(command.options);
    case "upgrade":
      return await (await import("../commands/run_upgrade.ts")).runUpgrade(command.options);
    case "status":
      return await (await import("../commands/live/run_status.ts")).runStatus(command.options);
    case "top":
      return await (await import("../commands/live/run_top.ts")).runTop(command.options);
    case "tap":
      return await (await import("../commands/live/run_tap.ts")).runTap(command.options);
    case "plugin":
      return await (await import("../commands/plugin/run_plugin.ts")).runPlugin(command.task);
    case "completion":
      process.stdout.write(
        (await import("./shell_scripts.ts")).completionScript(command.shell),
      );
      return 0;
    case "check_release":
      return await (await import("../commands/check_release.ts")).checkRelease(command.from);
    case "schema": {
      const { configJsonSchema } = await import("../../source/mod.ts");
      process.stdout.write(`${JSON.stringify(configJsonSchema(), null, 2)}\n`);
      return 0;
    }
    case "complete":
      return await (await import("./complete.ts")).runComplete(command.words);
    case "dev":
      return await (await import("../commands/run_dev.ts")).runDev(command.options);
  }
}

/** Returns the exit code. `calledAs`: the name or path that the program was started by. */
export async function runCommandLine(words: readonly string[], calledAs: string): Promise<number> {
  // Container images and probes start the program by this name.
  const argv = basename(calledAs) === "consul-dataplane" ? ["dataplane", ...words] : words;
  try {
    checkRights(ownStatus());
    checkEnvironment(process.env, { compiled: IS_COMPILED });
    return await run(parseCommand(argv, process.env));
  } catch (error) {
    const how = { json: wantsJson(argv), nowMs: systemClock.now() };
    process.stderr.write(`${lastWords(error, how)}\n`);
    return argv[0] === "dataplane" ? 1 : exitCodeOf(error);
  }
}

/** Lines of fewer columns are hard to read, of more, too. `undefined`: no terminal. */
function helpWidth(columns: number = 100): number {
  return Math.min(Math.max(columns, 60), 100);
}

/** `/proc/self/status`; empty on other systems than Linux, where files give no capabilities. */
function ownStatus(): string {
  try {
    return readFileSync("/proc/self/status", "utf8");
  } catch {
    return "";
  }
}
