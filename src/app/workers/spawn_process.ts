/** Starts a program that outlives this process. @module */

import { systemClock } from "../../base/mod.ts";

/** A program with its arguments and its whole environment. */
export interface ProgramStart {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Its process id; rejects when it cannot be started. It writes to the same outputs, in a session of its own:
 * signals of a terminal reach it through this process only. It inherits the priority of this thread.
 */
export async function spawnProcess({ command, args, env }: ProgramStart): Promise<number> {
  const { spawn } = await import("node:child_process");
  const child = spawn(command, args, {
    env,
    stdio: ["ignore", "inherit", "inherit"],
    detached: true,
  });
  const failed = new Promise<never>((_, reject) => child.once("error", reject));
  failed.catch(() => {});
  child.unref();
  if (child.pid !== undefined) return child.pid;
  const late = new Promise<never>((_, reject) =>
    systemClock.after(1_000, () => reject(new Error("it has no process id")))
  );
  return await Promise.race([failed, late]);
}
