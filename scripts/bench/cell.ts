/**
 * One kind of load on several pairs: what an operation costs each side. Pairs take turns, several times,
 * and the cheapest turn counts, so that a busy machine disturbs all of them alike and as little as it
 * can. System calls are counted in a turn of their own, for tracing slows everything down.
 *
 * @module
 */

import { eventually, pause } from "../../test/kit/process/process.ts";
import { type Cost, startCounting, startTracing, total } from "./counters.ts";
import { type Load, type LoadOptions, startLoad } from "./load.ts";
import type { Pair } from "./pairs.ts";
import { get, type Site } from "./site.ts";

export type SideName = "inbound" | "outbound";

/** Per operation: a request, a connection or a gigabyte. */
export interface SideCost {
  readonly cpuUs: number;
  readonly kInstructions: number | undefined;
  readonly systemCalls: number;
  /** Counts of system calls by name, the ten most frequent. */
  readonly calls: Readonly<Record<string, number>>;
}

export interface Measured {
  readonly pair: string;
  readonly sides: Partial<Record<SideName, SideCost>>;
  /** Why there are no numbers. */
  readonly failed?: string;
}

/** Which sides of a pair are of interest; pairs of two different programs lend one. */
export interface Subject {
  readonly name: string;
  readonly pair: Pair;
  readonly sides: readonly SideName[];
}

export interface CellOptions {
  readonly site: Site;
  readonly instructions: boolean;
  readonly load: Omit<LoadOptions, "port" | "seconds">;
  /** The unit of one operation. */
  readonly unit: "request" | "gigabyte";
  readonly rounds: number;
  readonly seconds: number;
  /** A proxy may keep connections to the backend, or share them: their number means nothing. */
  readonly pooled?: boolean;
  /** Proves after the turns that the load was what it was meant to be; throws otherwise. */
  readonly verify?: (subject: Subject) => Promise<void>;
}

const SIDES = ["inbound", "outbound"] as const;
const WARM_UP_MS = 700;
const TRACE_SECONDS = 2;
/** More would not fit into the queues of listening sockets, and lose their first packets. */
const CONNECTIONS_AT_ONCE = 1_000;
/** At most; a load is stopped when its window is over. */
const LOAD_SECONDS = 60;
/**
 * Seconds that counting and tracing need to begin and end; h2load cannot be stopped before its time.
 */
const ATTACH_SECONDS = 3;
const CALLS_SHOWN = 10;

export async function measureCell(
  subjects: readonly Subject[],
  options: CellOptions,
): Promise<Measured[]> {
  const costs = new Map<Subject, Turn[]>(subjects.map((subject) => [subject, []]));
  const failures = new Map<Subject, string>();
  const guarded = async (subject: Subject, act: () => Promise<void>) => {
    if (failures.has(subject)) return;
    try {
      await act();
    } catch (error) {
      failures.set(subject, error instanceof Error ? error.message : String(error));
    }
  };
  for (let round = 0; round < options.rounds; round++) {
    for (const subject of subjects) {
      await guarded(subject, async () => {
        const turn = await takeTurn(subject, options, "cost");
        costs.get(subject)?.push(turn);
      });
    }
  }
  const measured: Measured[] = [];
  for (const subject of subjects) {
    let traced: Turn | undefined;
    await guarded(subject, async () => {
      traced = await takeTurn(subject, options, "calls");
      await options.verify?.(subject);
    });
    const failed = failures.get(subject);
    const sides: Partial<Record<SideName, SideCost>> = {};
    if (failed === undefined) {
      for (const side of subject.sides) {
        sides[side] = sideCost(SIDES.indexOf(side), costs.get(subject) ?? [], traced);
      }
    }
    measured.push({ pair: subject.name, sides, ...(failed === undefined ? {} : { failed }) });
  }
  return measured;
}

interface Turn {
  readonly operations: number;
  readonly costs: readonly Cost[];
  readonly calls: readonly ReadonlyMap<string, number>[];
}

function sideCost(index: number, turns: readonly Turn[], traced: Turn | undefined): SideCost {
  const least = (value: (cost: Cost) => number | undefined): number | undefined => {
    const all = turns.map(({ costs, operations }) => {
      const cost = costs[index];
      const spent = cost && value(cost);
      return spent === undefined ? undefined : spent / operations;
    });
    const known = all.filter((spent) => spent !== undefined);
    return known.length > 0 ? Math.min(...known) : undefined;
  };
  const instructions = least((cost) => cost.instructions);
  const calls = traced?.calls[index] ?? new Map<string, number>();
  const perOperation = (count: number) => count / (traced?.operations ?? NaN);
  const frequent = [...calls].sort(([, a], [, b]) => b - a).slice(0, CALLS_SHOWN);
  return {
    cpuUs: (least((cost) => cost.cpuNs) ?? NaN) / 1_000,
    kInstructions: instructions === undefined ? undefined : instructions / 1_000,
    systemCalls: perOperation(total(calls)),
    calls: Object.fromEntries(frequent.map(([name, count]) => [name, perOperation(count)])),
  };
}

/** A window in the middle of the load, so that its start and end are not counted. */
async function takeTurn(
  subject: Subject,
  options: CellOptions,
  what: "cost" | "calls",
): Promise<Turn> {
  const { site, load, unit } = options;
  const { inbound, outbound } = subject.pair;
  const pids = [inbound.pid, outbound.pid];
  const seconds = what === "cost" ? options.seconds : TRACE_SECONDS;
  const runs: Load[] = [];
  const stop = () => Promise.all(runs.map((run) => run.stop()));
  let turn: Turn;
  try {
    for (let open = 0; open < load.connections;) {
      const connections = Math.min(load.connections - open, CONNECTIONS_AT_ONCE);
      const { port } = outbound;
      const lasts = load.streams === undefined
        ? LOAD_SECONDS
        : Math.ceil(WARM_UP_MS / 1_000 + seconds + ATTACH_SECONDS);
      runs.push(startLoad(site, { ...load, connections, port, seconds: lasts }));
      open += connections;
      if (!load.close && !options.pooled) await connected(site, open);
    }
    await pause(WARM_UP_MS);
    turn = await countWindow(pids, { ...options, seconds, what });
  } catch (error) {
    await stop().catch(() => {});
    throw error;
  }
  const reports = await stop();
  for (const { errors, requests, kinds } of reports) {
    if (errors > 0) throw new Error(`errors in ${requests} requests: ${kinds}`);
  }
  if (!(turn.operations > 0)) throw new Error(`no ${unit} was done`);
  if (!options.pooled) await drained(site);
  return turn;
}

async function countWindow(
  pids: readonly number[],
  options: CellOptions & { readonly what: "cost" | "calls" },
): Promise<Turn> {
  const { site, instructions, seconds, what } = options;
  const done = options.unit === "request"
    ? async () => (await site.backend.counts()).requests
    : () => Promise.resolve(site.backend.sentBytes() / 1e9);
  const { directory } = site;
  // Asking is a request as well.
  const asked = options.unit === "request" ? 1 : 0;
  const counting = what === "cost"
    ? await startCounting(pids, { directory, instructions })
    : undefined;
  const tracing = counting ? undefined : await startTracing(pids, directory);
  const began = performance.now();
  const before = await stamped(done);
  await pause(seconds * 1_000);
  const after = await stamped(done);
  const windowMs = performance.now() - began;
  const costs = await counting?.stop() ?? [];
  const calls = await tracing?.stop() ?? [];
  // The counted stretch lasted a little longer than the window.
  const stretch = windowMs / (after.atMs - before.atMs);
  return { operations: (after.value - before.value - asked) * stretch, costs, calls };
}

async function stamped(
  ask: () => Promise<number>,
): Promise<{ readonly value: number; readonly atMs: number }> {
  const value = await ask();
  return { value, atMs: performance.now() };
}

async function connected(site: Site, connections: number): Promise<void> {
  await eventually(`${connections} connections are open`, async () => {
    return (await site.backend.counts()).active > connections;
  }, { timeoutMs: 10_000 + connections * 4 });
}

/** No connection of one turn may be open in the next. */
async function drained(site: Site): Promise<void> {
  await eventually("all connections are closed", async () => {
    return (await site.backend.counts()).active <= 1;
  }, { timeoutMs: 20_000 });
}

/** Postern's own count of resumed handshakes. */
export async function resumedCount(adminPort: number): Promise<number> {
  const text = await get(adminPort, "/stats/prometheus");
  const lines = text.split("\n").filter((line) => /^\w*tls_resumed_total\{/.test(line));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}
