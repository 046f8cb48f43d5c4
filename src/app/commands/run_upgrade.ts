/** `postern upgrade`: has a running proxy start the program's file again, and waits for the result. @module */

import { readFileSync } from "node:fs";
import process from "node:process";
import * as v from "valibot";
import { type AdminAddress, type AskAdmin, askAdmin } from "../../admin/mod.ts";
import {
  type Clock,
  formatAddress,
  isLoopbackIp,
  messageOf,
  printable,
  sleep,
  systemClock,
} from "../../base/mod.ts";
import { parseJson } from "../../wire/mod.ts";
import { findProxy, type WhichProxy } from "../process/find_admin.ts";

export interface UpgradeOptions {
  readonly proxy: WhichProxy;
  readonly timeoutMs: number;
}

interface UpgradeDeps {
  readonly clock: Clock;
  readonly ask: AskAdmin;
  /** Sends SIGUSR2; throws the system's error. */
  signal(pid: number): void;
  /** The command line of a process; `""`: there is none. */
  commandOf(pid: number): string;
}

type UpgradeResult = { readonly kind: "done" | "failed"; readonly message: string };

const EVERY_MS = 200;
const ASK_TIMEOUT_MS = 2_000;

const Info = v.object({
  postern: v.object({
    version: v.string(),
    pid: v.number(),
    upgrade: v.optional(v.object({ failures: v.number(), reason: v.string() })),
  }),
});

export async function upgrade(
  { proxy, timeoutMs }: UpgradeOptions,
  { clock, ask, signal, commandOf }: UpgradeDeps,
): Promise<UpgradeResult> {
  const fail = (why: string): UpgradeResult => ({
    kind: "failed",
    message: `Cannot upgrade the proxy ${why}`,
  });
  const found = await findProxy(proxy, { ask });
  if (found.kind !== "found") return fail(found.why);
  const { admin } = found;
  const at = `at ${formatAddress({ ...admin, kind: "tcp" })}`;
  if (admin.host !== "localhost" && !isLoopbackIp(admin.host)) {
    return fail(`${at}: run this on its own machine, with a loopback address`);
  }
  const look = async (place: AdminAddress) => {
    const { body } = await ask(place, { path: "/server_info", timeoutMs: ASK_TIMEOUT_MS });
    return v.parse(Info, parseJson(body)).postern;
  };
  try {
    const before = await look(admin);
    const { pid } = before;
    if (!/\bproxy\b/.test(commandOf(pid))) {
      return fail(`${at}: its process ${pid} is not visible here; run this in its container`);
    }
    signal(pid);
    const untilMs = clock.monotonic() + timeoutMs;
    while (clock.monotonic() < untilMs) {
      await sleep(clock, EVERY_MS);
      // One request may meet the moment in which the old process ends its connections.
      const now = await look(admin).catch(() => undefined);
      if (!now) continue;
      if (now.pid !== pid) {
        const versions = `${before.version} to ${now.version}`;
        return { kind: "done", message: `process ${now.pid} took over from ${pid} (${versions})` };
      }
      if ((now.upgrade?.failures ?? 0) > (before.upgrade?.failures ?? 0)) {
        return fail(`${at}, which goes on serving: ${now.upgrade?.reason}`);
      }
    }
    return fail(`${at}: no process took over within ${timeoutMs / 1_000}s; its log says why`);
  } catch (error) {
    return fail(`${at}: ${messageOf(error)}`);
  }
}

export async function runUpgrade(options: UpgradeOptions): Promise<number> {
  const { kind, message } = await upgrade(options, {
    clock: systemClock,
    ask: askAdmin,
    signal: (pid) => void process.kill(pid, "SIGUSR2"),
    commandOf,
  });
  if (kind === "done") {
    process.stdout.write(`upgraded: ${printable(message)}\n`);
    return 0;
  }
  process.stderr.write(`postern: ${printable(message)}\n`);
  return 1;
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
