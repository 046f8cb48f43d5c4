/**
 * TLS traffic from a process of its own: what is measured with it is not what the test itself does
 * meanwhile.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Place } from "./echo.ts";
import { OWN_ENGINE } from "./postern.ts";
import { deadline } from "./process.ts";
import type { TlsTrafficOptions, TlsTrafficResult } from "./tls_session.ts";

const CHILD = fileURLToPath(new URL("tls_load_child.ts", import.meta.url));
const STOP_TIMEOUT_MS = 20_000;

export class TlsLoad {
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  #output = "";

  constructor(place: Place, options: TlsTrafficOptions) {
    const words = OWN_ENGINE === "deno" ? ["run", "-A", "--no-check", CHILD] : [CHILD];
    const child = spawn(process.execPath, [...words, JSON.stringify({ place, ...options })], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child = child;
    this.#ended = new Promise((resolve) => child.on("close", () => resolve()));
    child.stdin?.on("error", () => {});
    child.stdout?.setEncoding("utf8").on("data", (text: string) => this.#output += text);
  }

  async stop(): Promise<TlsTrafficResult> {
    this.#child.stdin?.end();
    await deadline(this.#ended, STOP_TIMEOUT_MS);
    return JSON.parse(this.#output) as TlsTrafficResult;
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}
