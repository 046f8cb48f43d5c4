/** A command that ends within a time, together with everything that it started. @module */

import { spawn } from "node:child_process";
import process from "node:process";

export interface Ended {
  /** Exit code, name of a signal, or why there is neither. */
  readonly code: number | string;
  /** Standard output and error as they came. */
  readonly output: string;
  readonly seconds: number;
}

/** Runs `command` in `cwd`; after `timeoutMs` it and all processes of its group are killed. */
export function runBounded(
  command: readonly string[],
  options: {
    readonly cwd: string;
    readonly timeoutMs: number;
    readonly env?: Readonly<Record<string, string>>;
  },
): Promise<Ended> {
  const { cwd, timeoutMs, env } = options;
  const started = performance.now();
  return new Promise((resolve) => {
    const child = spawn(command[0] ?? "", command.slice(1), {
      cwd,
      env: { ...process.env, NO_COLOR: "1", ...env },
      stdio: ["ignore", "pipe", "pipe"],
      // A process group of its own: what a test started ends with it.
      detached: true,
    });
    let output = "";
    let late = false;
    const killGroup = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        // Nothing of the group is left.
      }
    };
    const timer = setTimeout(() => {
      late = true;
      killGroup();
    }, timeoutMs);
    process.on("exit", killGroup);
    const settle = (code: number | string) => {
      clearTimeout(timer);
      process.removeListener("exit", killGroup);
      killGroup();
      resolve({
        code: late ? `SIGKILL after ${timeoutMs / 1000} s` : code,
        output,
        seconds: (performance.now() - started) / 1000,
      });
    };
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => output += chunk);
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => output += chunk);
    child.on("error", (error) => settle(error.message));
    child.on("close", (code, signal) => settle(signal ?? code ?? "no exit code"));
  });
}
