/**
 * Programs that the benchmark starts. Their output goes to a file, not to a pipe: reading thousands of
 * log lines a second would cost the machine what is being measured. None outlives the benchmark.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";

interface ProgramOptions {
  readonly logFile: string;
  readonly env?: Readonly<Record<string, string>>;
}

const STOP_TIMEOUT_MS = 3_000;
const running = new Set<Program>();

process.on("exit", () => {
  for (const program of running) program.kill("SIGKILL");
});

export class Program {
  readonly command: string;
  readonly exited: Promise<void>;
  readonly #child: ChildProcess;
  readonly #logFile: string;
  #ended = false;

  constructor(command: string, args: readonly string[], options: ProgramOptions) {
    this.command = command;
    this.#logFile = options.logFile;
    const log = openSync(options.logFile, "a");
    this.#child = spawn(command, [...args], {
      stdio: ["ignore", log, log],
      env: { ...process.env, ...options.env },
    });
    closeSync(log);
    running.add(this);
    this.exited = new Promise((resolve) => {
      const end = () => {
        this.#ended = true;
        running.delete(this);
        resolve();
      };
      this.#child.once("exit", end);
      this.#child.once("error", end);
    });
  }

  get pid(): number {
    const { pid } = this.#child;
    if (pid === undefined) throw new Error(`Cannot start ${this.command}`);
    return pid;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Everything it wrote, both streams. */
  get output(): string {
    return readFileSync(this.#logFile, "utf8");
  }

  kill(signal: NodeJS.Signals): void {
    if (this.#ended || this.#child.pid === undefined) return;
    try {
      process.kill(this.#child.pid, signal);
    } catch {
      // It ended by itself a moment ago.
    }
  }

  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    this.kill(signal);
    const timer = setTimeout(() => this.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await this.exited;
    clearTimeout(timer);
  }
}
