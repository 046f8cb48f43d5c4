/**
 * `postern wait-ready`: asks a proxy's admin server until it is ready, so that an application can be
 * started after its sidecar.
 *
 * @module
 */

import { type AskReady, askReady } from "../admin/mod.ts";
import process from "node:process";
import {
  type Address,
  type Clock,
  formatAddress,
  printable,
  sleep,
  systemClock,
} from "../base/mod.ts";

export interface WaitReadyOptions {
  readonly admin: Extract<Address, { kind: "tcp" }>;
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** For tests. */
  readonly ask?: AskReady;
}

export type WaitResult = { readonly kind: "ready" } | {
  readonly kind: "timed_out";
  /** Says what could not be done, and the last answer. */
  readonly message: string;
};

const EVERY_MS = 250;
const ASK_TIMEOUT_MS = 2_000;

export async function waitReady(options: WaitReadyOptions): Promise<WaitResult> {
  const { admin, timeoutMs, clock, ask = askReady } = options;
  const until = clock.monotonic() + timeoutMs;
  for (;;) {
    let last: string;
    try {
      const { status, body } = await ask(admin, ASK_TIMEOUT_MS);
      if (status === 200) return { kind: "ready" };
      last = `status ${status}, ${body.trim().split("\n").join(", ")}`;
    } catch (error) {
      last = error instanceof Error ? error.message : String(error);
    }
    const leftMs = until - clock.monotonic();
    if (leftMs <= 0) {
      const message = `Cannot wait longer for the proxy at ${formatAddress(admin)}: not ready ` +
        `after ${timeoutMs / 1_000}s; last answer: ${last}`;
      return { kind: "timed_out", message };
    }
    await sleep(clock, Math.min(EVERY_MS, leftMs));
  }
}

/** The command: prints why it gave up; the exit code. */
export async function runWaitReady(
  options: Pick<WaitReadyOptions, "admin" | "timeoutMs">,
): Promise<number> {
  const result = await waitReady({ ...options, clock: systemClock });
  if (result.kind === "ready") return 0;
  process.stderr.write(`postern: ${printable(result.message)}\n`);
  return 1;
}
