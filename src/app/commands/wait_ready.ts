/** `postern wait-ready`: waits for a sidecar, so that its application can start. @module */

import { type AdminAddress, type AskAdmin, askAdmin } from "../../admin/mod.ts";
import process from "node:process";
import {
  type Clock,
  formatAddress,
  messageOf,
  printable,
  sleep,
  systemClock,
} from "../../base/mod.ts";
import { findProxy, type WhichProxy } from "../process/find_admin.ts";

interface WaitReadyOptions {
  readonly waitFor: WhichProxy;
  readonly timeoutMs: number;
  /** Wait also until the instance passes its checks in Consul's catalog. */
  readonly catalog: boolean;
  /** Wait also until every upstream can be used. */
  readonly upstreams: boolean;
  readonly clock: Clock;
  /** For tests. */
  readonly ask?: AskAdmin;
}

type WaitResult = {
  readonly kind: "ready";
  /** `the proxy at 127.0.0.1:19000`. */
  readonly proxy: string;
  /** Faults that do not prevent readiness, such as a refused upstream. */
  readonly warnings: readonly string[];
} | {
  /** `refused`: waiting does not help. */
  readonly kind: "timed_out" | "refused";
  /** Says what could not be done, and the last answer. */
  readonly message: string;
};

const EVERY_MS = 250;
/** Interval of requests when the proxy must be found on a hundred ports. */
const SEARCH_EVERY_MS = 1_000;
const ASK_TIMEOUT_MS = 2_000;
/** The proxy reads from Consul before it answers. */
const CATALOG = { everyMs: 1_000, askTimeoutMs: 15_000 };

export async function waitReady(options: WaitReadyOptions): Promise<WaitResult> {
  const { waitFor, timeoutMs, catalog, upstreams, clock, ask = askAdmin } = options;
  const wanted = [...catalog ? ["catalog"] : [], ...upstreams ? ["upstreams"] : []].join("&");
  const path = wanted === "" ? "/ready" : `/ready?${wanted}`;
  const { everyMs, askTimeoutMs } = catalog
    ? CATALOG
    : { everyMs: EVERY_MS, askTimeoutMs: ASK_TIMEOUT_MS };
  const until = clock.monotonic() + timeoutMs;
  let admin: AdminAddress | undefined;
  for (;;) {
    let why: string;
    // Found each time: a restarted proxy may get another port, and another proxy its old port.
    const found = await findProxy(waitFor, { ask, ...(admin && { near: admin }) });
    admin = found.kind === "found" ? found.admin : undefined;
    if (found.kind !== "found") {
      why = found.why;
    } else {
      const at = `at ${formatAddress({ ...found.admin, kind: "tcp" })}`;
      let last: string;
      try {
        const { status, body } = await ask(found.admin, { path, timeoutMs: askTimeoutMs });
        if (status === 200) {
          const warnings = body.split("\n").filter((line) => line.startsWith("warning: "));
          return { kind: "ready", proxy: `the proxy ${at}${flagText(waitFor)}`, warnings };
        }
        if (catalog && status === 400) return { kind: "refused", message: body.trim() };
        last = `status ${status}, ${body.trim().split("\n").join(", ")}`;
      } catch (error) {
        last = messageOf(error);
      }
      why = `${at}: not ready after ${timeoutMs / 1_000}s; last answer: ${last}`;
    }
    const leftMs = until - clock.monotonic();
    if (leftMs <= 0) {
      return { kind: "timed_out", message: `Cannot wait longer for the proxy ${why}` };
    }
    await sleep(clock, Math.min(admin ? everyMs : SEARCH_EVERY_MS, leftMs));
  }
}

function flagText(waitFor: WhichProxy): string {
  if (waitFor.kind !== "proxy") return "";
  const { flag, value } = waitFor.wanted;
  return ` (-${flag} ${value})`;
}

export async function runWaitReady(
  options: Omit<WaitReadyOptions, "clock" | "ask">,
): Promise<number> {
  const result = await waitReady({ ...options, clock: systemClock });
  if (result.kind === "ready") {
    for (const line of result.warnings) process.stderr.write(`postern: ${printable(line)}\n`);
    process.stdout.write(`ready: ${printable(result.proxy)}\n`);
    return 0;
  }
  process.stderr.write(`postern: ${printable(result.message)}\n`);
  return 1;
}
