/** `postern events`: what changed in the running proxies, merged in the order of time. @module */

import process from "node:process";
import * as v from "valibot";
import { type AskAdmin, askAdmin, eventText, followAdmin } from "../../admin/mod.ts";
import { escapeUnseen, messageOf, parseDurationMs, printable } from "../../base/mod.ts";
import { parseJson } from "../../wire/mod.ts";
import {
  describedSidecars,
  type FoundSidecar,
  noneFound,
  shortName,
  type WhichSidecars,
} from "../process/find_admin.ts";
import { onSignals } from "../process/signals.ts";
import { paint, type Screen, screenOf, tint, type Tone } from "./live/terminal.ts";

export interface EventsOptions {
  readonly which: WhichSidecars;
  /** Goes on with each new event until it is interrupted. */
  readonly follow: boolean;
  /** Duration, ISO time or number; `""`: all, and with `follow` only new ones. */
  readonly since: string;
  /** With commas; `""`: all. */
  readonly kinds: string;
  readonly json: boolean;
  readonly noColor: boolean;
}

const ASK_TIMEOUT_MS = 10_000;
const LIMIT_BYTES = 4 * 1_048_576;
const NO_ANSWER = 2;
const DAY_MS = 86_400_000;

const Text = v.optional(v.string(), "");
const Event = v.object({
  at: Text,
  kind: Text,
  text: Text,
  effect: Text,
  severity: Text,
  /** An earlier version does not tell it. */
  pending: v.optional(v.boolean(), false),
});
type Event = v.InferOutput<typeof Event>;

const Sums = v.object({
  kinds: v.array(
    v.object({ kind: v.string(), info: v.number(), warn: v.number(), error: v.number() }),
  ),
  subjects: v.array(v.object({ kind: v.string(), subject: v.string(), count: v.number() })),
});
type Sums = v.InferOutput<typeof Sums>;

const Answer = v.object({
  events: v.array(v.looseObject(Event.entries)),
  /** An earlier version has none. */
  day: v.optional(Sums),
});

/** Writes events to standard output, oldest first; the exit code. */
export async function runEvents(options: EventsOptions): Promise<number> {
  const leaving = new AbortController();
  const stop = () => leaving.abort();
  const signals = onSignals({ stop, stopNow: stop, reload() {}, reopen() {} });
  // The reader of a pipe may leave first.
  process.stdout.once("error", stop);
  try {
    return await showEvents(options, {
      ask: askAdmin,
      screen: screenOf(options),
      write: (line) => process.stdout.write(`${line}\n`),
      note: (text) => process.stderr.write(`postern: ${printable(text)}\n`),
      signal: leaving.signal,
    });
  } finally {
    signals.off();
  }
}

interface EventsOutput {
  readonly ask: AskAdmin;
  readonly screen: Screen;
  readonly write: (line: string) => void;
  readonly note: (text: string) => void;
  readonly signal: AbortSignal;
}

/** The exit code: 2 where no proxy has answered. */
export async function showEvents(options: EventsOptions, output: EventsOutput): Promise<number> {
  const { which, follow, json } = options;
  const { write, note, screen } = output;
  const found = await describedSidecars(which, output.ask);
  if (found.length === 0) {
    note(noneFound(which));
    return NO_ANSWER;
  }
  const width = found.length > 1 ? Math.max(...found.map((one) => shortName(one).length)) : 0;
  const layout: Layout = { screen, width };
  if (!json) {
    const names = found.map((one) => `${shortName(one)} at ${one.at}`).join(", ");
    write(paint(tint(`events of ${names}`, "bold"), screen));
  }
  const shown = await Promise.all(
    found.map((one) =>
      follow ? followed(one, options, { ...output, layout }) : asked(one, options, output)
    ),
  );
  const answers = shown.filter((answer) => answer !== undefined);
  if (answers.length === 0) return NO_ANSWER;
  if (follow) return 0;
  const events = answers.flatMap(({ name, events }) => events.map((event) => ({ name, event })))
    .sort((a, b) => a.event.at < b.event.at ? -1 : a.event.at > b.event.at ? 1 : 0);
  for (const { name, event } of events) {
    write(json ? jsonOf(event, width > 0 ? name : "") : lineOf(event, name, layout));
  }
  if (json) return 0;
  if (events.length === 0) write(`(no events${options.since && ` since ${options.since}`})`);
  if (coversDay(options.since)) {
    for (const { name, day } of answers) {
      for (const line of sumLines(day, name, options)) write(line);
    }
  }
  return 0;
}

interface Layout {
  readonly screen: Screen;
  /** Width of the column with the name of the proxy; 0: there is one proxy. */
  readonly width: number;
}

interface Answered {
  readonly name: string;
  /** Oldest first. */
  readonly events: readonly (Event & Readonly<Record<string, unknown>>)[];
  readonly day: Sums | undefined;
}

/** `undefined`: it has not answered. */
async function asked(
  sidecar: FoundSidecar,
  options: EventsOptions,
  { ask, note }: EventsOutput,
): Promise<Answered | undefined> {
  const { admin, at } = sidecar;
  try {
    const { status, body } = await ask(admin, {
      path: pathOf(options),
      timeoutMs: ASK_TIMEOUT_MS,
      limitBytes: LIMIT_BYTES,
    });
    if (status === 200) {
      const { events, day } = v.parse(Answer, parseJson(body));
      return { name: shortName(sidecar), events: events.toReversed(), day };
    }
    note(body.trim() || `Cannot ask the proxy at ${at}: status ${status}`);
  } catch (error) {
    note(`Cannot ask the proxy at ${at}: ${messageOf(error)}`);
  }
  return undefined;
}

async function followed(
  sidecar: FoundSidecar,
  options: EventsOptions,
  { signal, write, note, layout }: EventsOutput & { readonly layout: Layout },
): Promise<Answered | undefined> {
  const { admin, at } = sidecar;
  const name = shortName(sidecar);
  try {
    const answer = await followAdmin(admin, {
      path: pathOf(options),
      timeoutMs: ASK_TIMEOUT_MS,
      signal,
      onEvent(data, { event }) {
        if (event === "lost") return note(`${at}: events were lost: ${data}`);
        const parsed = v.safeParse(v.looseObject(Event.entries), jsonValue(data));
        if (!parsed.success) return;
        const { output: shown } = parsed;
        write(
          options.json ? jsonOf(shown, layout.width > 0 ? name : "") : lineOf(shown, name, layout),
        );
      },
    });
    if (!answer) return { name, events: [], day: undefined };
    note(answer.body.trim() || `Cannot ask the proxy at ${at}: status ${answer.status}`);
  } catch (error) {
    note(`Cannot ask the proxy at ${at}: ${messageOf(error)}`);
  }
  return undefined;
}

function jsonValue(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    // Another program answers; its line is left out.
    return undefined;
  }
}

function pathOf({ follow, since, kinds }: EventsOptions): string {
  const query = new URLSearchParams({
    ...(since !== "" && { since }),
    ...(kinds !== "" && { kind: kinds }),
    ...(follow ? { follow: "" } : { limit: "1000" }),
  });
  return `/events?${query}`;
}

/** `name`: `""` where there is one proxy. */
function jsonOf(event: object, name: string): string {
  return escapeUnseen(JSON.stringify(name === "" ? event : { sidecar: name, ...event }));
}

const TONES: Readonly<Record<string, Tone>> = { warn: "warn", error: "bad", info: "dim" };

function lineOf(event: Event, name: string, { screen, width }: Layout): string {
  const { at, kind, severity } = event;
  const level = severity || "info";
  const what = eventText(event).replace(/\s*\n\s*/g, " ");
  return [
    at.replace(/\.\d+Z$/, "Z"),
    ...width > 0 ? [name.padEnd(width)] : [],
    paint(tint(level.padEnd(5), TONES[level]), screen),
    kind.padEnd(11),
    paint(tint(what, level === "error" ? "bad" : undefined), screen),
  ].map((part, at) => at === 0 ? printable(part) : part).join(" ");
}

/** The events since then are those of a day or more. */
function coversDay(since: string): boolean {
  return since === "" || (parseDurationMs(since) ?? 0) >= DAY_MS;
}

function sumLines(
  day: Sums | undefined,
  name: string,
  { kinds: wanted }: Pick<EventsOptions, "kinds">,
): readonly string[] {
  const isWanted = ({ kind }: { readonly kind: string }) =>
    wanted === "" || wanted.split(",").includes(kind);
  const kinds = day?.kinds.filter(isWanted) ?? [];
  if (kinds.length === 0) return [];
  const counts = kinds.map(({ kind, info, warn, error }) => {
    const grave = [...warn > 0 ? [`${warn} warn`] : [], ...error > 0 ? [`${error} error`] : []];
    return `${info + warn + error} ${kind}${grave.length > 0 ? ` (${grave.join(", ")})` : ""}`;
  });
  const subjects = day?.subjects.filter(isWanted).slice(0, 5)
    .map(({ kind, subject, count }) => `${kind} ${subject} ${count}`) ?? [];
  return [
    `last 24 hours of ${name}: ${counts.join(", ")}`,
    `  most: ${subjects.join(", ")}`,
  ].map((line) => printable(line));
}
