/** Sidecars that a command starts and ends: this program, in processes of their own. @module */

import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../base/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { IS_COMPILED } from "../process/version.ts";

/** A killed sidecar comes back after this, as under a supervisor. */
export const RESTART_MS = 5_000;

interface SidecarOptions {
  readonly token?: string | undefined;
  readonly args?: readonly string[];
  /** Takes log lines from `level` on; absent: errors go to this process's standard error. */
  readonly logs?: { readonly level: string; readonly onText: (text: string) => void };
}

export class Sidecar {
  readonly id: string;
  readonly #agent: string | undefined;
  readonly #options: SidecarOptions;
  #child: ChildProcess | undefined;
  #stopping = false;

  /** `agent`: URL of the agent that has it registered; `undefined`: the arguments name the servers. */
  constructor(id: string, agent: string | undefined, options: SidecarOptions = {}) {
    this.id = id;
    this.#agent = agent;
    this.#options = options;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  start(): void {
    const [command, ...own] = ownCommand();
    const { token, args = [], logs } = this.#options;
    const level = ["-log-level", logs?.level ?? "error"];
    const child = spawn(
      command,
      // The end of the demo does not wait for open connections.
      [...own, "proxy", "-sidecar-for", this.id, ...level, "-drain-timeout", "0s", ...args],
      {
        stdio: ["ignore", "ignore", logs ? "pipe" : "inherit"],
        env: {
          ...process.env,
          ...(this.#agent !== undefined && { CONSUL_HTTP_ADDR: this.#agent }),
          ...(token !== undefined && { CONSUL_HTTP_TOKEN: token }),
        },
        // Ctrl-C reaches the whole group of a terminal; this process ends its sidecars itself.
        detached: true,
      },
    );
    this.#child = child;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => logs?.onText(text));
    child.on("exit", () => {
      this.#child = undefined;
      if (!this.#stopping) systemClock.after(RESTART_MS, () => !this.#stopping && this.start());
    });
  }

  kill(): void {
    this.#child?.kill("SIGKILL");
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#child;
    if (!child) return;
    const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill("SIGTERM");
    const force = systemClock.after(2_000, () => child.kill("SIGKILL"));
    await gone;
    force.cancel();
  }
}

function ownCommand(): [string, ...string[]] {
  if (IS_COMPILED) return [process.execPath];
  const main = fileURLToPath(new URL("../../main.ts", import.meta.url));
  if (runtimeEngine().name.startsWith("deno")) return [process.execPath, "run", "-A", main];
  return [process.execPath, main];
}
