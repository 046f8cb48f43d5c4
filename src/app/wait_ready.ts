/**
 * `postern wait-ready`: asks a proxy's admin server until it is ready, so that an application can be
 * started after its sidecar.
 *
 * @module
 */

import { request } from "node:http";
import { type Address, type Clock, formatAddress, sleep } from "../base/mod.ts";

export interface WaitReadyOptions {
  readonly admin: Extract<Address, { kind: "tcp" }>;
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** For tests. */
  readonly ask?: AskReady;
}

/** One question: ready, or why not; rejects when there is no answer. */
export type AskReady = (
  admin: WaitReadyOptions["admin"],
  timeoutMs: number,
) => Promise<{ readonly status: number; readonly body: string }>;

export type WaitResult = { readonly kind: "ready" } | {
  readonly kind: "timed_out";
  /** Says what could not be done, and the last answer. */
  readonly message: string;
};

const EVERY_MS = 250;
const ASK_TIMEOUT_MS = 2_000;
const BODY_LIMIT = 4_096;

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

const askReady: AskReady = ({ host, port }, timeoutMs) =>
  new Promise((resolve, reject) => {
    const sent = request(
      { host, port, path: "/ready", agent: false, timeout: timeoutMs },
      (reply) => {
        let body = "";
        reply.setEncoding("utf8").on("data", (chunk: string) => {
          if (body.length < BODY_LIMIT) body += chunk;
        });
        reply.on("end", () => resolve({ status: reply.statusCode ?? 0, body }));
        reply.on("error", reject);
      },
    );
    sent.on("timeout", () => sent.destroy(new Error("no answer in time")));
    sent.on("error", reject);
    sent.end();
  });
