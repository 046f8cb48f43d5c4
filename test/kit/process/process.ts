/**
 * Child processes for tests: output is captured within a bound, every wait has a deadline and shows the
 * process's output when it runs out, and nothing outlives the test process. Linux.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";

export interface ProcessOptions {
  /** Added to this process's environment; `undefined` removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Passed on as 3, 4 and so on. */
  readonly descriptors?: readonly number[];
  /** The name in error messages; the command's own if absent. */
  readonly name?: string;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
}

/** How much output is kept: the newest part of it. */
const OUTPUT_LIMIT = 1 << 20;
const STOP_TIMEOUT_MS = 30_000;

const running = new Set<Process>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** A started program. Disposing it stops it: SIGTERM, then SIGKILL. */
export class Process {
  readonly name: string;
  /** Resolves when it has ended and its output is complete. */
  readonly exited: Promise<Exit>;
  #output = "";
  /** For each stream, the beginning of a line whose end has not come yet. */
  readonly #partial = { stdout: "", stderr: "" };
  #ended: Exit | undefined;
  #failure: Error | undefined;
  readonly #child: ChildProcess;
  readonly #changed = new Set<() => void>();

  constructor(command: string, args: readonly string[], options: ProcessOptions = {}) {
    this.name = options.name ?? command.split("/").at(-1) ?? command;
    const child = spawn(command, [...args], {
      env: definedOnly({ ...process.env, ...options.env }),
      stdio: ["ignore", "pipe", "pipe", ...options.descriptors ?? []],
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    });
    this.#child = child;
    running.add(this);
    for (const name of ["stdout", "stderr"] as const) {
      child[name]?.setEncoding("utf8").on("data", (chunk: string) => this.#take(name, chunk));
    }
    this.exited = new Promise((resolve) => {
      const end = (exit: Exit) => {
        if (this.#ended) return;
        this.#append(this.#partial.stdout + this.#partial.stderr);
        this.#ended = exit;
        running.delete(this);
        this.#notify();
        resolve(exit);
      };
      child.on("error", (error) => {
        this.#failure = error;
        end({ code: null, signal: null });
      });
      child.on("close", (code, signal) => end({ code, signal }));
      // A grandchild that holds the pipes open keeps "close" away; the end of the process counts. Two
      // timers: who got no processor meanwhile reads what there is to read between them.
      child.on("exit", (code, signal) => {
        const last = () => setTimeout(() => end({ code, signal }), 500).unref();
        setTimeout(last, 2_000).unref();
      });
    });
  }

  get pid(): number {
    if (this.#child.pid === undefined) {
      throw new Error(`Cannot start ${this.name}: ${this.#failure?.message ?? "no process id"}`);
    }
    return this.#child.pid;
  }

  /**
   * The lines that it wrote on both streams, the newest {@link OUTPUT_LIMIT} characters of them. Whole
   * lines, but for the last words of one that has ended: where a chunk ends means nothing.
   */
  get output(): string {
    return this.#output;
  }

  get ended(): Exit | undefined {
    return this.#ended;
  }

  /** Waits until its output matches; fails when it ends first or the time is over. */
  async waitFor(
    pattern: RegExp,
    options: { readonly timeoutMs: number },
  ): Promise<RegExpMatchArray> {
    const found = await this.#until(
      () => this.#output.match(pattern) ?? undefined,
      options.timeoutMs,
    );
    if (found) return found;
    const fact = this.#failure?.message ??
      (this.#ended
        ? `it ended with ${this.#ended.signal ?? this.#ended.code}`
        : `nothing within ${options.timeoutMs} ms`);
    throw new Error(
      `Cannot find ${pattern} in the output of ${this.name}: ${fact}\n${this.tail()}`,
    );
  }

  /** How it ended; fails when it is still running after `timeoutMs`. */
  async waitExit(options: { readonly timeoutMs: number }): Promise<Exit> {
    const exit = await deadline(this.exited, options.timeoutMs);
    if (exit) return exit;
    throw new Error(`${this.name} still runs after ${options.timeoutMs} ms\n${this.tail()}`);
  }

  kill(signal: NodeJS.Signals): void {
    if (this.#ended || this.#child.pid === undefined) return;
    try {
      // Not ChildProcess.kill: Deno's sends no second signal after a first.
      process.kill(this.#child.pid, signal);
    } catch {
      // It ended by itself a moment ago.
    }
  }

  /** SIGTERM, then SIGKILL for one that does not listen. */
  async stop(): Promise<Exit> {
    this.kill("SIGTERM");
    const exit = await deadline(this.exited, STOP_TIMEOUT_MS);
    if (exit) return exit;
    this.kill("SIGKILL");
    return await this.exited;
  }

  /** The end of the output, for failure messages. */
  tail(): string {
    const { stdout, stderr } = this.#partial;
    const rest = this.#ended ? "" : stdout + stderr;
    return `--- ${this.name} ---\n${(this.#output + rest).slice(-6_000)}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A stopped (SIGSTOP) process would not see SIGTERM.
    this.kill("SIGCONT");
    await this.stop();
  }

  #take(name: "stdout" | "stderr", chunk: string): void {
    const text = this.#partial[name] + chunk;
    const end = text.lastIndexOf("\n") + 1;
    this.#partial[name] = text.slice(end);
    if (end > 0) this.#append(text.slice(0, end));
  }

  #append(text: string): void {
    this.#output = (this.#output + text).slice(-OUTPUT_LIMIT);
    this.#notify();
  }

  #until<T>(check: () => T | undefined, timeoutMs: number): Promise<T | undefined> {
    return new Promise((resolve) => {
      const settle = (value: T | undefined) => {
        clearTimeout(timer);
        this.#changed.delete(look);
        resolve(value);
      };
      const look = () => {
        const value = check();
        if (value !== undefined || this.#ended) settle(value);
      };
      const timer = setTimeout(() => settle(undefined), timeoutMs);
      this.#changed.add(look);
      look();
    });
  }

  #notify(): void {
    for (const listener of [...this.#changed]) listener();
  }
}

/** Runs a program to its end; fails, with its output, when that is not exit code 0. */
export async function runToEnd(
  command: string,
  args: readonly string[],
  options: ProcessOptions & { readonly timeoutMs: number },
): Promise<string> {
  const child = new Process(command, args, options);
  const exit = await deadline(child.exited, options.timeoutMs);
  if (exit?.code === 0) return child.output;
  child.kill("SIGKILL");
  const fact = exit ? `it ended with ${exit.signal ?? exit.code}` : `over ${options.timeoutMs} ms`;
  throw new Error(`Cannot run ${child.name} ${args.join(" ")}: ${fact}\n${child.tail()}`);
}

/** `undefined` when `promise` takes longer than `timeoutMs`. */
export async function deadline<T>(promise: Promise<T>, timeoutMs: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Asks again until `check` gives a value; fails with `what` when the time is over. */
export async function eventually<T>(
  what: string,
  check: () => Promise<T | undefined | false> | T | undefined | false,
  options: { readonly timeoutMs?: number; readonly everyMs?: number } = {},
): Promise<T> {
  const { timeoutMs = 30_000, everyMs = 25 } = options;
  const until = performance.now() + timeoutMs;
  let last = "";
  for (;;) {
    try {
      const value = await check();
      if (value !== undefined && value !== false) return value;
    } catch (error) {
      last = `: ${error instanceof Error ? error.message : error}`;
    }
    if (performance.now() >= until) throw new Error(`Not within ${timeoutMs} ms: ${what}${last}`);
    await pause(everyMs);
  }
}

/** Real time must pass where a real agent or a real outage is the subject. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function definedOnly(
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const defined: Record<string, string> = {};
  for (const [key, value] of Object.entries(env)) if (value !== undefined) defined[key] = value;
  return defined;
}
