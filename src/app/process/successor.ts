/**
 * SIGUSR2: starts this program again from its file, with the same arguments. The new process takes over
 * ({@link Handover}). Under systemd the new process becomes the main process of the unit, and this one ends.
 * Under any other supervisor this process stays as the parent of the new one, so that the supervised process
 * id stays the same: it passes signals on, starts the next process, and ends when the new one ends.
 *
 * @module
 */

import { readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { type Clock, type Log, messageOf, sleep } from "../../base/mod.ts";
import { canHandOver } from "../../net/mod.ts";
import type { ProgramStart } from "../workers/spawn_process.ts";
import { IS_COMPILED } from "./version.ts";

/** A new process that has not taken over by then is ended; a little longer than it gets to become ready. */
const TAKEOVER_MS = 65_000;
const KILL_MS = 5_000;
const LOOK_MS = 100;
/** Names the process that starts the next one, to the process that it started. */
const PARENT = "POSTERN_PARENT";

interface SuccessorOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Another program's supervisor follows the main process. */
  readonly isNotified: boolean;
  spawn(start: ProgramStart): Promise<number>;
  /** True once `pid` has taken over. */
  isServedBy(pid: number): boolean;
  /** Why `pid` did not take over, as far as the handover knows. */
  failureOf(pid: number): string | undefined;
  /** Tells the process that serves, which `postern upgrade` asks. */
  reportFailure(reason: string): void;
}

/** For `/server_info`. */
export interface UpgradeState {
  readonly failures: number;
  /** The reason of the last failure. */
  readonly reason: string;
}

export class Successor {
  readonly #options: SuccessorOptions;
  /** The processes that were started: the last one serves, or may; earlier ones drain. */
  #children: number[] = [];
  #starting = false;
  #stopping = false;
  #failures = 0;
  #reason = "";

  constructor(options: SuccessorOptions) {
    this.#options = options;
  }

  get state(): UpgradeState {
    return { failures: this.#failures, reason: this.#reason };
  }

  /** Never rejects. Resolves when the new process has taken over or has failed. */
  async start(): Promise<void> {
    const { log, env } = this.#options;
    if (this.#stopping) return;
    // The parent starts the next process, so that there is one parent, however many upgrades follow.
    if (env[PARENT] === String(process.ppid) && this.#children.length === 0) {
      return void signalTo(process.ppid, "SIGUSR2");
    }
    if (this.#starting) return log.warn("an upgrade is under way: this signal is ignored");
    this.#starting = true;
    try {
      if (!canHandOver()) {
        return this.#failed(
          "this runtime cannot hand sockets over; only the executable on Linux can",
        );
      }
      const start = programStart(env);
      log.info("upgrade: starting the next process", { program: start.command });
      await this.#follow(await this.#options.spawn(start));
    } catch (error) {
      this.#failed(`it cannot be started: ${messageOf(error)}`);
    } finally {
      this.#starting = false;
    }
  }

  async #follow(pid: number): Promise<void> {
    const { clock, isServedBy, failureOf } = this.#options;
    const before = this.#children.filter(isAlive);
    this.#children = [...before, pid];
    const untilMs = clock.monotonic() + TAKEOVER_MS;
    for (;;) {
      if (isServedBy(pid)) return;
      if (!isAlive(pid)) {
        this.#children = before;
        const why = "it ended before it asked for the sockets; its own log lines say why";
        return this.#failed(failureOf(pid) ?? why);
      }
      if (clock.monotonic() >= untilMs) {
        signalTo(pid, "SIGTERM");
        clock.after(KILL_MS, () => isAlive(pid) && signalTo(pid, "SIGKILL"));
        this.#children = before;
        return this.#failed(`it did not take over within ${TAKEOVER_MS / 1_000} s`);
      }
      await sleep(clock, LOOK_MS);
    }
  }

  /** The parent of this process has failed to start the next one. */
  note(reason: string): void {
    this.#failures++;
    this.#reason = reason;
  }

  #failed(reason: string): void {
    this.note(reason);
    if (this.#children.length > 0) this.#options.reportFailure(reason);
    this.#options.log.error("upgrade failed; the running process goes on serving", { reason });
  }

  /** Passes a signal on to the processes that were started. */
  signal(name: "SIGTERM" | "SIGHUP" | "SIGUSR1"): void {
    if (name === "SIGTERM") this.#stopping = true;
    for (const pid of this.#children) signalTo(pid, name);
  }

  /** After the handover: waits for the end of the processes that were started; returns the exit code. */
  async outlive(): Promise<number> {
    const { clock, isNotified, log } = this.#options;
    if (isNotified || this.#children.length === 0) return 0;
    log.info("this process stays as the parent of the new one", { process: this.#children.at(-1) });
    while (this.#starting || this.#children.some(isAlive)) await sleep(clock, LOOK_MS);
    if (this.#stopping) return 0;
    log.error("the process that had taken over has ended", { process: this.#children.at(-1) });
    return 1;
  }
}

/** The name by which this program was started: a link may lead to another file now. */
function programStart(env: SuccessorOptions["env"]): ProgramStart {
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    // They are for one process alone.
    if (
      value === undefined || /^(?:WATCHDOG_PID|LISTEN_PID|LISTEN_FDS|LISTEN_FDNAMES)$/.test(name)
    ) {
      continue;
    }
    given[name] = value;
  }
  given[PARENT] = String(process.pid);
  const args = process.argv.slice(2);
  const main = fileURLToPath(new URL("../../main.ts", import.meta.url));
  return IS_COMPILED
    ? { command: process.argv0 || process.execPath, args, env: given }
    : { command: process.execPath, args: [process.argv[1] ?? main, ...args], env: given };
}

function signalTo(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended.
  }
}

/** False also for a process that has ended and that nobody has waited for. */
function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  } catch {
    return false;
  }
}
