/** `postern top`: rate, errors, latency and bytes of running sidecars, by row of their traffic tables. @module */

import process from "node:process";
import * as v from "valibot";
import { type AskAdmin, askAdmin } from "../../../admin/mod.ts";
import {
  addFaults,
  messageOf,
  noTraffic,
  sleep,
  systemClock,
  type TrafficCounts,
  type TrafficFault,
  type TrafficQuantile,
  trafficQuantile,
} from "../../../base/mod.ts";
import { parseJson } from "../../../wire/mod.ts";
import { findSidecars, type FoundSidecar, noneFound } from "../../process/find_admin.ts";
import { bytesText } from "./run_tap.ts";
import type { TopKey, TopOptions, TopSort } from "./top_options.ts";
import {
  type Cell,
  type Column,
  type Screen,
  screenOf,
  tableFits,
  tableLines,
  tint,
} from "./terminal.ts";

const ASK_TIMEOUT_MS = 5_000;
const LIMIT_BYTES = 8 * 1_048_576;

const Row = v.object({
  direction: v.string(),
  caller: v.string(),
  upstream: v.string(),
  target: v.string(),
  endpoint: v.string(),
  route: v.string(),
  requests: v.number(),
  errors: v.number(),
  faults: v.optional(
    v.array(v.object({ status: v.number(), code: v.string(), count: v.number() })),
    [],
  ),
  counts: v.optional(v.array(v.tuple([v.number(), v.number()])), []),
  receivedBytes: v.number(),
  sentBytes: v.number(),
  open: v.number(),
});
type TrafficLine = v.InferOutput<typeof Row>;
const Refusing = v.object({ upstream: v.string(), code: v.string(), count: v.number() });
const Traffic = v.object({ rows: v.array(Row), refusing: v.optional(v.array(Refusing), []) });
const Info = v.object({ node: v.object({ id: v.string(), cluster: v.string() }) });

/** One read of one sidecar. */
export interface TrafficRead {
  readonly sidecar: string;
  readonly atMs: number;
  readonly rows: readonly TrafficLine[];
  /** Upstreams that refused within the last minute, most often first. */
  readonly refusing: readonly v.InferOutput<typeof Refusing>[];
}

export interface TopRow {
  readonly sidecar: string;
  readonly direction: string;
  readonly caller: string;
  readonly upstream: string;
  readonly endpoint: string;
  readonly route: string;
  /** Codes with which the upstream refused within the last minute. */
  readonly refused: string;
  readonly perSecond: number;
  readonly errorsPerSecond: number;
  /** Reasons of the errors, the most frequent first. */
  readonly faults: readonly TrafficFault[];
  readonly p50: TrafficQuantile;
  readonly p99: TrafficQuantile;
  readonly receivedPerSecond: number;
  readonly sentPerSecond: number;
  readonly open: number;
}

/** 1: no sidecar answered. */
export async function runTop(options: TopOptions): Promise<number> {
  const screen = screenOf(options);
  const isLive = !options.once && !options.total && screen.width !== undefined;
  const found = await findSidecars(options.which, askAdmin);
  if (found.length === 0) {
    process.stderr.write(`postern: ${noneFound(options.which)}\n`);
    return 1;
  }
  if (isLive) return await showLive(options, found);
  const before = options.total ? undefined : await readAll(found, askAdmin);
  if (before) await sleep(systemClock, options.intervalMs);
  const after = await readAll(found, askAdmin);
  for (const { at, reason } of after.failed) process.stderr.write(`postern: ${at}: ${reason}\n`);
  for (
    const line of topLines(
      topRows(before?.reads ?? sinceStart(after.reads), after.reads, options),
      { ...options, screen },
    )
  ) {
    process.stdout.write(`${line}\n`);
  }
  return after.reads.length === 0 ? 1 : 0;
}

interface AllReads {
  readonly reads: readonly TrafficRead[];
  readonly failed: readonly { readonly at: string; readonly reason: string }[];
}

export async function readAll(found: readonly FoundSidecar[], ask: AskAdmin): Promise<AllReads> {
  const results = await Promise.all(found.map(async ({ admin, at }) => {
    const question = { timeoutMs: ASK_TIMEOUT_MS, limitBytes: LIMIT_BYTES };
    try {
      const [info, traffic] = await Promise.all([
        ask(admin, { path: "/server_info", ...question }),
        ask(admin, { path: "/traffic?counts", ...question }),
      ]);
      const { node } = v.parse(Info, parseJson(info.body));
      const { rows, refusing } = v.parse(Traffic, parseJson(traffic.body));
      const sidecar = node.id.replace(/-sidecar-proxy$/, "") || node.cluster || at;
      const named = found.length > 1 ? sidecar : "";
      return { read: { sidecar: named, atMs: performance.now(), rows, refusing } };
    } catch (error) {
      const reason = v.isValiError(error) || error instanceof SyntaxError
        ? "it does not show its traffic: is it a proxy of this version?"
        : messageOf(error);
      return { failed: { at, reason } };
    }
  }));
  return {
    reads: results.flatMap(({ read }) => read ?? []),
    failed: results.flatMap(({ failed }) => failed ?? []),
  };
}

/** Before the first request, a second ago: the rates since then are totals. */
export function sinceStart(reads: readonly TrafficRead[]): readonly TrafficRead[] {
  return reads.map((read) => ({ ...read, atMs: read.atMs - 1_000, rows: [] }));
}

/** Rows with traffic between the two reads, or with something open; the first by `sort` first. */
export function topRows(
  before: readonly TrafficRead[],
  after: readonly TrafficRead[],
  { sort, by }: Pick<TopOptions, "sort" | "by">,
): readonly TopRow[] {
  const sums = new Map<string, Sum>();
  for (const [index, read] of after.entries()) {
    const earlier = before.find(({ sidecar }, at) =>
      sidecar === read.sidecar && (sidecar !== "" || at === index)
    );
    const seconds = earlier ? (read.atMs - earlier.atMs) / 1_000 : 0;
    if (seconds <= 0) continue;
    const known = new Map(earlier?.rows.map((row) => [keyOf(row), row]));
    for (const row of read.rows) {
      const old = known.get(keyOf(row));
      // A proxy that was started again counts from zero.
      const base = old && old.requests <= row.requests ? old : undefined;
      addRow(sums, { row, base, seconds, read, by });
    }
  }
  const rows = [...sums.values()].map(({ counts, ...row }): TopRow => ({
    ...row,
    faults: row.faults.filter(({ count }) => count > 0).sort((a, b) => b.count - a.count),
    p50: trafficQuantile(counts, 0.5),
    p99: trafficQuantile(counts, 0.99),
  }));
  const value = SORT_VALUES[sort];
  return rows
    .filter(({ perSecond, open, receivedPerSecond, sentPerSecond }) =>
      perSecond > 0 || open > 0 || receivedPerSecond > 0 || sentPerSecond > 0
    )
    .sort((a, b) => value(b) - value(a) || b.perSecond - a.perSecond);
}

const SORT_VALUES: Readonly<Record<TopSort, (row: TopRow) => number>> = {
  rate: ({ perSecond }) => perSecond,
  errors: ({ errorsPerSecond }) => errorsPerSecond,
  p50: ({ p50 }) => p50.ms,
  p99: ({ p99 }) => p99.ms,
  bytes: ({ receivedPerSecond, sentPerSecond }) => receivedPerSecond + sentPerSecond,
  open: ({ open }) => open,
};

type Sum = { -readonly [Key in keyof Omit<TopRow, "p50" | "p99">]: TopRow[Key] } & {
  readonly counts: TrafficCounts;
};

function addRow(sums: Map<string, Sum>, { row, base, seconds, read, by }: {
  readonly row: TrafficLine;
  readonly base: TrafficLine | undefined;
  readonly seconds: number;
  readonly read: TrafficRead;
  readonly by: readonly TopKey[];
}): void {
  const { direction } = row;
  const { sidecar, refusing } = read;
  const kept = (name: TopKey) => by.includes(name) ? row[name] : "";
  const names = {
    caller: kept("caller"),
    upstream: kept("upstream"),
    endpoint: kept("endpoint"),
    route: kept("route"),
  };
  const key = [sidecar, direction, ...Object.values(names)].join("\u0000");
  let sum = sums.get(key);
  if (!sum) {
    sum = {
      sidecar,
      direction,
      ...names,
      refused: refusing.flatMap(({ upstream, code }) => upstream === names.upstream ? code : [])
        .join(" "),
      perSecond: 0,
      errorsPerSecond: 0,
      faults: [],
      receivedPerSecond: 0,
      sentPerSecond: 0,
      open: 0,
      counts: noTraffic(),
    };
    sums.set(key, sum);
  }
  sum.perSecond += (row.requests - (base?.requests ?? 0)) / seconds;
  sum.errorsPerSecond += Math.max(row.errors - (base?.errors ?? 0), 0) / seconds;
  const past = (base?.faults ?? []).map((fault) => ({ ...fault, count: -fault.count }));
  sum.faults = addFaults(sum.faults, addFaults(row.faults, past));
  sum.receivedPerSecond += Math.max(row.receivedBytes - (base?.receivedBytes ?? 0), 0) / seconds;
  sum.sentPerSecond += Math.max(row.sentBytes - (base?.sentBytes ?? 0), 0) / seconds;
  sum.open += row.open;
  const old = new Map(base?.counts);
  for (const [bucket, count] of row.counts) {
    if (bucket < sum.counts.length) {
      sum.counts[bucket] = (sum.counts[bucket] ?? 0) + Math.max(count - (old.get(bucket) ?? 0), 0);
    }
  }
}

function keyOf(row: TrafficLine): string {
  const { direction, caller, upstream, target, endpoint, route } = row;
  return [direction, caller, upstream, target, endpoint, route].join("\u0000");
}

/** The title line and a line for each row. */
function topLines(
  rows: readonly TopRow[],
  { screen, by, sort, total }: Pick<TopOptions, "by" | "sort" | "total"> & {
    readonly screen: Screen;
  },
): readonly string[] {
  const each = total ? "" : "/S";
  const several = rows.some(({ sidecar }) => sidecar !== "");
  const titled = (title: string, name: TopSort) => name === sort ? `${title}*` : title;
  const isShown = (name: TopKey) => name !== "route" || rows.some(({ route }) => route !== "");
  const all: readonly TopColumn[] = [
    ...several ? [{ title: "SIDECAR", shrinksTo: 6, cell: ({ sidecar }: TopRow) => sidecar }] : [],
    { title: "DIR", cell: ({ direction }) => direction === "inbound" ? "in" : "out" },
    ...by.filter(isShown).map((name) => ({
      title: name.toUpperCase(),
      shrinksTo: 6,
      keepsEnd: name === "endpoint",
      cell: (row: TopRow) => row[name] || "-",
    })),
    { title: titled(`REQ${each}`, "rate"), align: "right", cell: (row) => rateText(row.perSecond) },
    { title: titled(`ERR${each}`, "errors"), align: "right", cell: errorCell },
    { title: titled("P50", "p50"), align: "right", cell: ({ p50 }) => latencyText(p50) },
    { title: titled("P99", "p99"), align: "right", cell: ({ p99 }) => latencyText(p99) },
    {
      title: titled(`IN${each}`, "bytes"),
      align: "right",
      optional: sort !== "bytes",
      cell: ({ receivedPerSecond }) => bytesText(Math.round(receivedPerSecond)),
    },
    {
      title: titled(`OUT${each}`, "bytes"),
      align: "right",
      optional: sort !== "bytes",
      cell: ({ sentPerSecond }) => bytesText(Math.round(sentPerSecond)),
    },
    { title: titled("OPEN", "open"), align: "right", cell: ({ open }) => String(open) },
    ...rows.some(({ faults }) => faults.length > 0)
      ? [{ title: "ERRORS", shrinksTo: 12, cell: faultsCell }]
      : [],
  ];
  const cellsOf = (columns: readonly TopColumn[]) =>
    rows.map((row) => columns.map(({ cell }) => cell(row)));
  const columns = tableFits(all, cellsOf(all), screen)
    ? all
    : all.filter(({ optional }) => !optional);
  return tableLines(columns, cellsOf(columns), screen);
}

interface TopColumn extends Column {
  readonly cell: (row: TopRow) => Cell;
  /** Left out where the terminal is too narrow. */
  readonly optional?: boolean;
}

function errorCell({ errorsPerSecond, perSecond }: TopRow): Cell {
  const text = rateText(errorsPerSecond);
  if (errorsPerSecond === 0) return text;
  return tint(text, errorsPerSecond * 10 > perSecond ? "bad" : "warn");
}

const FAULTS_SHOWN = 3;

/** `403 intention_denied by db 46, 500 3`. */
function faultsCell({ faults, refused, upstream }: TopRow): Cell {
  const refusing = refused.split(" ");
  const texts = faults.slice(0, FAULTS_SHOWN).map(({ status, code, count }) =>
    [
      status === 0 ? "" : String(status),
      code,
      code !== "" && refusing.includes(code) ? `by ${upstream}` : "",
      String(count),
    ].filter((text) => text !== "").join(" ")
  );
  const more = faults.length > FAULTS_SHOWN ? ["..."] : [];
  return tint([...texts, ...more].join(", "), "bad");
}

function rateText(perSecond: number): string {
  return perSecond === 0 || perSecond >= 10 ? String(Math.round(perSecond)) : perSecond.toFixed(1);
}

/** `12ms`, or `<=14ms` where few requests say no more. */
function latencyText({ ms, isBound }: TrafficQuantile): string {
  if (!isBound) return msText(ms);
  const digits = ms >= 10_000 ? 0.001 : ms >= 10 ? 1 : 10;
  return `<=${msText(Math.ceil(ms * digits) / digits)}`;
}

function msText(ms: number): string {
  if (ms === 0) return "-";
  if (ms >= 10_000) return `${(ms / 1_000).toFixed(0)}s`;
  return ms >= 10 ? `${Math.round(ms)}ms` : `${ms.toFixed(1)}ms`;
}

const SORT_OF_KEY: Readonly<Record<string, TopSort>> = {
  r: "rate",
  e: "errors",
  m: "p50",
  p: "p99",
  b: "bytes",
  o: "open",
};
const KEYS_TEXT = "sort: r rate  e errors  m p50  p p99  b bytes  o open   q quit";
/** Sidecars come and go while the table is shown. */
const FIND_EVERY_MS = 15_000;

async function showLive(options: TopOptions, first: readonly FoundSidecar[]): Promise<number> {
  const ending = new AbortController();
  const { stdin, stdout } = process;
  let sort = options.sort;
  let found = first;
  let foundMs = performance.now();
  let before: readonly TrafficRead[] = [];
  let after: readonly TrafficRead[] = [];
  const draw = () => {
    const screen = screenOf(options);
    const rows = topRows(before, after, { ...options, sort });
    const lines = topLines(rows, { ...options, sort, screen });
    const height = stdout.rows ?? 24;
    const shown = lines.slice(0, Math.max(height - 2, 2));
    const more = lines.length - shown.length;
    const status = before.length === 0
      ? `measuring for ${options.intervalMs / 1_000} s`
      : `${rows.length} rows${more > 0 ? `, ${more} not shown` : ""}`;
    const foot = `${status}   ${KEYS_TEXT}`.slice(0, screen.width);
    stdout.write(`\x1b[H${[...shown, foot].map((line) => `${line}\x1b[K\n`).join("")}\x1b[J`);
  };
  const onKey = (data: Uint8Array | string) => {
    const key = typeof data === "string" ? data : String.fromCharCode(data[0] ?? 0);
    if (key === "q" || key === "\u0003") return ending.abort();
    sort = SORT_OF_KEY[key] ?? sort;
    draw();
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => ending.abort());
  }
  if (stdin.isTTY) stdin.setRawMode(true).resume().on("data", onKey);
  // The alternate screen leaves the lines of before as they were.
  stdout.write("\x1b[?1049h\x1b[?25l");
  try {
    while (!ending.signal.aborted) {
      if (performance.now() - foundMs >= FIND_EVERY_MS) {
        foundMs = performance.now();
        found = await findSidecars(options.which, askAdmin);
      }
      before = after;
      after = (await readAll(found, askAdmin)).reads;
      draw();
      await sleep(systemClock, options.intervalMs, { signal: ending.signal });
    }
  } finally {
    stdout.write("\x1b[?25h\x1b[?1049l");
    if (stdin.isTTY) stdin.setRawMode(false).pause();
  }
  return 0;
}
