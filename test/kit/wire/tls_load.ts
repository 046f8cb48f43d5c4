/**
 * TLS traffic from a process of its own: its measurements leave out the test's own work.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Place } from "./echo.ts";
import { OWN_ENGINE } from "../process/postern.ts";
import { deadline, eventually } from "../process/process.ts";
import type { TlsTrafficOptions, TlsTrafficResult } from "./tls_session.ts";

const CHILD = "tls_load_child.ts";
const ECHO_CHILD = "echo_child.ts";
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 60_000;

export class TlsLoad {
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  #output = "";

  constructor(place: Place, options: TlsTrafficOptions) {
    const child = startChild(CHILD, JSON.stringify({ place, ...options }));
    this.#child = child;
    this.#ended = new Promise((resolve) => child.on("close", () => resolve()));
    child.stdin?.on("error", () => {});
    child.stdout?.setEncoding("utf8").on("data", (text: string) => this.#output += text);
  }

  /** Resolves when the first exchange is done. */
  async started(): Promise<void> {
    await eventually("TLS traffic", () => this.#output.startsWith("started\n"), {
      timeoutMs: START_TIMEOUT_MS,
    });
  }

  async stop(): Promise<TlsTrafficResult> {
    this.#child.stdin?.end();
    await deadline(this.#ended, STOP_TIMEOUT_MS);
    return JSON.parse(this.#output.slice(this.#output.indexOf("\n"))) as TlsTrafficResult;
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}

/** An echo in a process of its own. */
export class EchoProcess implements Place {
  readonly host = "127.0.0.1";
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(): Promise<EchoProcess> {
    const child = startChild(ECHO_CHILD, "127.0.0.1");
    const port = await deadline(
      new Promise<number>((resolve) => {
        child.stdout?.setEncoding("utf8").once("data", (text: string) => resolve(Number(text)));
      }),
      START_TIMEOUT_MS,
    );
    if (port === undefined) throw new Error("Cannot start an echo: it names no port");
    return new EchoProcess(child, port);
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}

/** On the engine that runs the test. */
function startChild(name: string, argument: string): ChildProcess {
  const script = fileURLToPath(new URL(name, import.meta.url));
  const words = OWN_ENGINE === "deno" ? ["run", "-A", "--no-check", script] : [script];
  return spawn(process.execPath, [...words, argument], { stdio: ["pipe", "pipe", "inherit"] });
}
