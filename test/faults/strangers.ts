/**
 * Callers without a certificate: some that never send a byte, and storms of them that come and go.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Place } from "../kit/wire/echo.ts";

export interface StrangersOptions {
  readonly place: Place;
  /** Connect once and stay. */
  readonly silent: number;
  /** So many at a time connect, send bytes that are no TLS, and leave, again and again. */
  readonly storm: number;
  /** Where they come from, in turn. */
  readonly addresses: readonly string[];
}

interface StrangersResult {
  /** Connections made. */
  readonly connected: number;
  /** Connections still open at the end. */
  readonly open: number;
}

export class Strangers implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  private constructor(child: ChildProcess, lines: AsyncIterator<string>) {
    this.#child = child;
    this.#lines = lines;
  }

  static async start(options: StrangersOptions): Promise<Strangers> {
    const script = fileURLToPath(new URL("strangers_child.ts", import.meta.url));
    const runtime = "Deno" in globalThis ? ["run", "-A", "--no-check"] : [];
    const child = spawn(process.execPath, [...runtime, script, JSON.stringify(options)], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    if (!child.stdout) throw new Error("Cannot read what the strangers say");
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const strangers = new Strangers(child, lines);
    await lines.next();
    return strangers;
  }

  async stop(): Promise<StrangersResult> {
    this.#child.stdin?.end();
    const { value } = await this.#lines.next();
    return JSON.parse(value ?? "{}");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { exitCode } = this.#child;
    if (exitCode !== null) return;
    const gone = new Promise<void>((resolve) => this.#child.once("exit", () => resolve()));
    this.#child.kill("SIGKILL");
    await gone;
  }
}
