/**
 * Where built and downloaded test peers are kept between runs, and how scripts run a command. Nothing
 * here is part of the product.
 *
 * @module
 */

import { spawn } from "node:child_process";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { accessSync, constants } from "node:fs";

/** `$POSTERN_CACHE`, else `~/.cache/postern`. */
export function cacheDirectory(): string {
  return process.env.POSTERN_CACHE || join(homedir(), ".cache", "postern");
}

/** The path of an executable on `$PATH`, or in one of `extra`. */
export function findExecutable(name: string, extra: readonly string[] = []): string | undefined {
  const directories = [...(process.env.PATH ?? "").split(delimiter), ...extra];
  for (const directory of directories) {
    const path = join(directory, name);
    if (directory && isExecutable(path)) return path;
  }
  return undefined;
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false; // absent and not executable are the same to a caller that wants to run it
  }
}

/** Runs a command with its output shown on stderr; a non-zero end is an error that names it. */
export function runShown(
  command: string,
  args: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, [...args], {
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      env: { ...process.env, ...options.env },
      stdio: ["ignore", 2, 2],
    });
    child.on("error", (error) => reject(new Error(`Cannot run ${command}: ${error.message}`)));
    child.on("exit", (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`Cannot finish "${command} ${args.join(" ")}": ${signal ?? code}`));
    });
  });
}
