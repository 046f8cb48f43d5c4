/** `postern tap`: each connection and request of running sidecars, as it ends. @module */

import process from "node:process";
import * as v from "valibot";
import { askAdmin, followAdmin } from "../../../admin/mod.ts";
import { escapeUnseen, messageOf, printable } from "../../../base/mod.ts";
import { parseJson } from "../../../wire/mod.ts";
import {
  describedSidecars,
  type FoundSidecar,
  noneFound,
  shortName,
  type WhichSidecars,
} from "../../process/find_admin.ts";
import { paint, type Screen, screenOf, tint, type Tone } from "./terminal.ts";

export interface TapOptions {
  readonly which: WhichSidecars;
  /** The query of `/tap`, encoded. */
  readonly query: string;
  readonly json: boolean;
  readonly noColor: boolean;
}

const HEAD_TIMEOUT_MS = 5_000;

const Line = v.object({
  at: v.string(),
  kind: v.picklist(["request", "connection"]),
  direction: v.string(),
  caller: v.string(),
  upstream: v.string(),
  method: v.optional(v.string(), ""),
  path: v.optional(v.string(), ""),
  status: v.optional(v.number(), 0),
  durationMs: v.number(),
  endpoint: v.string(),
  route: v.optional(v.string(), ""),
  attempts: v.optional(v.number(), 1),
  code: v.string(),
  reason: v.optional(v.string(), ""),
  rule: v.string(),
  deniedBy: v.optional(v.string(), ""),
  receivedBytes: v.number(),
  sentBytes: v.number(),
  headers: v.optional(v.record(v.string(), v.string()), {}),
  responseHeaders: v.optional(v.record(v.string(), v.string()), {}),
});
type TapLine = v.InferOutput<typeof Line>;

/** Ends when every sidecar has ended its stream, or by Ctrl-C. 1: none could be followed. */
export async function runTap(options: TapOptions): Promise<number> {
  const found = await describedSidecars(options.which, askAdmin);
  if (found.length === 0) {
    process.stderr.write(`postern: ${noneFound(options.which)}\n`);
    return 1;
  }
  const ending = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => ending.abort());
  }
  // The reader of a pipe may leave first.
  process.stdout.once("error", () => ending.abort());
  const screen = screenOf(options);
  const several = found.length > 1;
  const ends = await Promise.all(found.map((sidecar) =>
    followTap(sidecar, {
      ...options,
      signal: ending.signal,
      write: (line) => process.stdout.write(`${line}\n`),
      note: (text) => process.stderr.write(`postern: ${printable(text)}\n`),
      screen,
      names: several,
    })
  ));
  return ends.some((isFollowed) => isFollowed) ? 0 : 1;
}

interface FollowTapOptions extends Pick<TapOptions, "query" | "json"> {
  readonly signal: AbortSignal;
  readonly screen: Screen;
  /** The name of the sidecar stands before each line. */
  readonly names: boolean;
  write(line: string): void;
  note(text: string): void;
}

/** True: the sidecar has streamed. */
export async function followTap(
  sidecar: FoundSidecar,
  { query, json, signal, screen, names, write, note }: FollowTapOptions,
): Promise<boolean> {
  const { admin, at, facts } = sidecar;
  const name = names ? shortName(sidecar) : "";
  const service = facts?.service || "app";
  let isRefused = false;
  try {
    const answer = await followAdmin(admin, {
      path: `/tap${query === "" ? "" : `?${query}`}`,
      timeoutMs: HEAD_TIMEOUT_MS,
      signal,
      onEvent(data, { event }) {
        if (event === "dropped") {
          return note(`${at}: ${data} lines were too many, and are not shown`);
        }
        if (event === "refused") {
          isRefused = true;
          return note(`${at}: ${data}`);
        }
        for (const line of data.split("\n")) {
          write(json ? jsonOf(line, names ? at : "", name) : shown(line));
        }
      },
    });
    if (!answer) return !isRefused;
    note(
      answer.status === 404
        ? `Cannot tap the proxy at ${at}: its version has no /tap`
        : answer.body.trim() || `Cannot tap the proxy at ${at}: status ${answer.status}`,
    );
  } catch (error) {
    note(`Cannot tap the proxy at ${at}: ${messageOf(error)}`);
  }
  return false;

  function shown(line: string): string {
    try {
      return tapText(v.parse(Line, parseJson(line)), { screen, name, service });
    } catch {
      return escapeUnseen(line);
    }
  }
}

/** The line as it came, with the sidecar's address and name where there are several. */
function jsonOf(line: string, admin: string, sidecar: string): string {
  const text = escapeUnseen(line);
  if (admin === "") return text;
  const added = escapeUnseen(JSON.stringify({ admin, sidecar })).slice(1, -1);
  return text.startsWith("{") ? `{${added},${text.slice(1)}` : text;
}

/** A line of `/tap` for people. */
export function tapText(
  line: TapLine,
  { screen, name, service }: {
    readonly screen: Screen;
    readonly name: string;
    /** The service itself, which inbound traffic goes to. */
    readonly service: string;
  },
): string {
  const { at, kind, direction, caller, upstream, endpoint, durationMs, code, rule } = line;
  const { headers, responseHeaders, attempts, route, reason, deniedBy } = line;
  const time = at.slice(11);
  const whom = `${caller} => ${direction === "inbound" ? service : upstream}`;
  const details = [
    ...direction === "inbound" ? ["inbound"] : [],
    ...endpoint === "" ? [] : [`at ${endpoint}`],
    ...route === "" ? [] : [`route ${route}`],
    ...attempts > 1 ? [`${attempts} attempts`] : [],
    `in ${bytesText(line.receivedBytes)} out ${bytesText(line.sentBytes)}`,
    ...Object.entries(headers).map(([header, value]) => `${header}: ${value}`),
    ...Object.entries(responseHeaders).map(([header, value]) => `response ${header}: ${value}`),
  ];
  const what = kind === "request"
    ? `${line.method} ${line.path}`.trim() || "a request that could not be read"
    : "connection";
  const outcome = kind === "request" ? String(line.status || "-") : code === "" ? "ok" : "ended";
  const by = deniedBy === "" ? code : `${code} by ${deniedBy}`;
  // The reason of a connection that an intention denied is the rule.
  const reasons = new Set([by, reason, code === "" ? "" : rule]);
  const why = [...reasons].filter((text) => text !== "").join(", ");
  return [
    ...name === "" ? [] : [paint(tint(name, "dim"), screen)],
    paint(tint(time, "dim"), screen),
    paint(tint(outcome.padStart(5), toneOf(line)), screen),
    `${durationMs.toFixed(1)}ms`.padStart(10),
    paint(tint(whom, "bold"), screen),
    printable(what),
    ...why === "" ? [] : [paint(tint(why, "bad"), screen)],
    paint(tint(`(${details.join(", ")})`, "dim"), screen),
  ].join(" ");
}

function toneOf({ kind, status, code }: TapLine): Tone {
  if (kind === "connection") return code === "" ? "good" : "bad";
  if (status === 0 || status >= 500) return "bad";
  return status >= 400 ? "warn" : "good";
}

/** `812B`, `1.2kB`, `34MB`. */
export function bytesText(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000;
    unit++;
  }
  return `${unit === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)}${units[unit]}`;
}
