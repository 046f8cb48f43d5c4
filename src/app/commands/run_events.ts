/** `postern events`: what changed in a running proxy. @module */

import process from "node:process";
import { type AdminAddress, type AskAdmin, askAdmin, followAdmin } from "../../admin/mod.ts";
import { escapeUnseen, formatAddress, messageOf, printable, ProxyError } from "../../base/mod.ts";
import { findProxy, type WhichProxy } from "../process/find_admin.ts";
import { onSignals } from "../process/signals.ts";

export interface EventsOptions {
  readonly proxy: WhichProxy;
  /** Goes on with each new event until it is interrupted. */
  readonly follow: boolean;
  /** Duration, ISO time or number; `""`: all, and with `follow` only new ones. */
  readonly since: string;
  /** With commas; `""`: all. */
  readonly kinds: string;
  readonly json: boolean;
}

const ASK_TIMEOUT_MS = 10_000;
const LIMIT_BYTES = 4 * 1_048_576;
const NO_ANSWER = 2;

/** Writes events to standard output, oldest first; the exit code. */
export async function runEvents(options: EventsOptions): Promise<number> {
  const leaving = new AbortController();
  const stop = () => leaving.abort();
  const signals = onSignals({ stop, stopNow: stop, reload() {}, reopen() {} });
  try {
    const write = (line: string) => process.stdout.write(`${line}\n`);
    await showEvents(options, { ask: askAdmin, write, signal: leaving.signal });
    return 0;
  } catch (error) {
    process.stderr.write(`postern: ${printable(messageOf(error))}\n`);
    return NO_ANSWER;
  } finally {
    signals.off();
  }
}

interface EventsOutput {
  readonly ask: AskAdmin;
  readonly write: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Throws, for people, without an answer. */
export async function showEvents(options: EventsOptions, output: EventsOutput): Promise<void> {
  const { proxy, follow } = options;
  const { ask } = output;
  const found = await findProxy(proxy, { ask });
  if (found.kind !== "found") throw new ProxyError("internal", `Cannot ask the proxy ${found.why}`);
  const at = `the proxy at ${formatAddress({ ...found.admin, kind: "tcp" })}`;
  const failed = (error: unknown) => {
    throw new ProxyError("internal", `Cannot ask ${at}: ${messageOf(error)}`);
  };
  const answer = follow
    ? await followed(found.admin, options, output).catch(failed)
    : await ask(found.admin, {
      path: pathOf(options),
      timeoutMs: ASK_TIMEOUT_MS,
      limitBytes: LIMIT_BYTES,
    }).catch(failed);
  if (!answer) return;
  const { status, body } = answer;
  if (status !== 200 || follow) {
    throw new ProxyError(
      "internal",
      printable(body.trim()) || `Cannot ask ${at}: status ${status}`,
    );
  }
  const { events } = JSON.parse(body) as { readonly events: readonly EventText[] };
  for (const event of events.toReversed()) output.write(lineOf(event, options.json));
}

function followed(admin: AdminAddress, options: EventsOptions, { write, signal }: EventsOutput) {
  return followAdmin(admin, {
    path: pathOf(options),
    timeoutMs: ASK_TIMEOUT_MS,
    signal,
    onEvent(data, { event }) {
      if (event === "lost") {
        write(options.json ? data : `(events were lost: ${escapeUnseen(data)})`);
      } else write(options.json ? escapeUnseen(data) : lineOf(JSON.parse(data), false));
    },
  });
}

function pathOf({ follow, since, kinds }: EventsOptions): string {
  const query = new URLSearchParams({
    ...(since !== "" && { since }),
    ...(kinds !== "" && { kind: kinds }),
    ...(follow ? { follow: "" } : { limit: "1000" }),
  });
  return `/events?${query}`;
}

/** The fields that a line shows; the server at the address may be another program. */
interface EventText {
  readonly at?: unknown;
  readonly kind?: unknown;
  readonly text?: unknown;
  readonly effect?: unknown;
  readonly severity?: unknown;
}

function lineOf(event: EventText, json: boolean): string {
  if (json) return escapeUnseen(JSON.stringify(event));
  const { at = "", kind = "", text = "", effect = "", severity = "info" } = event;
  const level = severity === "info" ? "" : `${String(severity).toUpperCase()} `;
  const head = `${String(at).replace(/\.\d+Z$/, "Z")} ${String(kind).padEnd(11)} `;
  return printable(
    `${head}${level}${text}${effect === "" ? "" : `: ${effect}`}`.replace(/\s*\n\s*/g, " "),
  );
}
