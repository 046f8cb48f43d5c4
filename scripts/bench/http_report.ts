/**
 * The tables of the HTTP parts of a benchmark, and what Postern is to reach there: at most so many times
 * what another program of the same run takes.
 *
 * @module
 */

import type { Measured, SideCost, SideName } from "./cell.ts";
import type { Latency } from "./http_latency.ts";
import {
  CONNECTIONS,
  type FlatMemory,
  QUIET_MS,
  REQUESTS,
  type StreamMemory,
} from "./http_memory.ts";
import { ONE_PLUGIN, ONE_ROUTE, TCP } from "./http_pairs.ts";
import { againstBefore, callsLines, ENVOY, number, POSTERN, table } from "./report.ts";

export interface HttpTarget {
  /** Limits by the name of the other pair. */
  readonly most: Readonly<Record<string, number>>;
  /** Replaces `most`, by the name of the pair that is judged. */
  readonly ofPair?: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly kInstructions?: number;
  readonly systemCalls?: number;
}

export const HTTP_TARGETS = {
  http1: {
    most: { [ENVOY]: 0.5, haproxy: 1.1, nginx: 1.1 },
    kInstructions: 80,
    systemCalls: 4.8,
  },
  http2: { most: { [ENVOY]: 0.3, haproxy: 1 }, kInstructions: 55, systemCalls: 0.5 },
  grpc: { most: { [ENVOY]: 0.4 } },
  http_new: { most: { [TCP]: 1.1 } },
  plugins1: { most: { [POSTERN]: 1.15 }, ofPair: { [ONE_PLUGIN]: { [POSTERN]: 1.04 } } },
  plugins2: { most: { [POSTERN]: 1.25 }, ofPair: { [ONE_PLUGIN]: { [POSTERN]: 1.08 } } },
  routes: { most: { [ONE_ROUTE]: 1.1 } },
  http_bulk: { most: { [TCP]: 1.3 } },
  http2_bulk: { most: { [TCP]: 1.3 } },
} as const satisfies Record<string, HttpTarget>;

const HTTP_MEMORY_TARGETS = { idleMb: 65, kbPerConnection: 40, growth: 1.1 } as const;

const SIDES = ["inbound", "outbound"] as const;

/** One row per pair and side, with its ratio to each pair that a target names. */
export function httpTable(
  title: string,
  measured: readonly Measured[],
  options: { readonly target: HttpTarget; readonly unit: string },
): string {
  const { target, unit } = options;
  const others = Object.keys(target.most).filter((name) =>
    measured.some(({ pair, sides }) => pair === name && SIDES.some((side) => sides[side]))
  );
  const rows = [[unit, "side", "k-instr", "cpu us", ...others.map((name) => `x ${name}`), "calls"]];
  rows[0]?.push("", "");
  for (const one of measured) {
    if (one.failed !== undefined) {
      rows.push([one.pair, "", `failed: ${one.failed.split("\n")[0]}`]);
      continue;
    }
    for (const side of SIDES) {
      const cost = one.sides[side];
      if (!cost) continue;
      const ratios = others.map((name) => ratioTo(measured, name, side, cost));
      rows.push([
        one.pair,
        side,
        cost.kInstructions === undefined ? "-" : number(cost.kInstructions),
        number(cost.cpuUs),
        ...ratios.map((ratio) => ratio?.toFixed(2) ?? "-"),
        number(cost.systemCalls),
        ...(isOurs(one) ? [verdict(ofPair(target, one), { others, ratios, cost })] : []),
      ]);
    }
  }
  const below = [againstBefore(measured), callsLines(measured)].filter(Boolean);
  return [`${title}\n${table(rows)}`, ...below].join("\n");
}

function ofPair(target: HttpTarget, { pair }: Measured): HttpTarget {
  return { ...target, most: target.ofPair?.[pair] ?? target.most };
}

function isOurs({ pair }: Measured): boolean {
  return pair.startsWith(POSTERN) && pair !== TCP;
}

function ratioTo(
  measured: readonly Measured[],
  name: string,
  side: SideName,
  cost: SideCost,
): number | undefined {
  const other = measured.find(({ pair, sides }) => pair === name && sides[side])?.sides[side];
  if (!other) return undefined;
  return cost.kInstructions !== undefined && other.kInstructions !== undefined
    ? cost.kInstructions / other.kInstructions
    : cost.cpuUs / other.cpuUs;
}

/** `met`, or everything that is above what it should be. */
function verdict(
  target: HttpTarget,
  { others, ratios, cost }: {
    readonly others: readonly string[];
    readonly ratios: readonly (number | undefined)[];
    readonly cost: SideCost;
  },
): string {
  const missed = others.flatMap((name, index) => {
    const [most = Infinity, ratio = 0] = [target.most[name], ratios[index]];
    return ratio > most ? [`${most} x ${name}`] : [];
  });
  const { kInstructions: k = Infinity, systemCalls: calls = Infinity } = target;
  if ((cost.kInstructions ?? 0) > k) missed.push(`${k} k-instr`);
  if (cost.systemCalls > calls) missed.push(`${calls} calls`);
  return missed.length === 0 ? "met" : `MISSED ${missed.join(", ")}`;
}

function judged(pair: string, value: number, most: number): string {
  if (!pair.startsWith(POSTERN)) return "";
  return value <= most ? "met" : `MISSED <= ${most}`;
}

export function streamMemoryTable(measured: readonly StreamMemory[]): string {
  const rows = [["memory", "side", "idle MB", "", "KB/connection", ""]];
  for (const { pair, side, idleMb, kbPerConnection: each, failed } of measured) {
    rows.push([
      pair,
      side,
      idleMb.toFixed(1),
      judged(pair, idleMb, HTTP_MEMORY_TARGETS.idleMb),
      each?.toFixed(1) ?? failed ?? "-",
      each === undefined ? "" : judged(pair, each, HTTP_MEMORY_TARGETS.kbPerConnection),
    ]);
  }
  return `Memory of ${CONNECTIONS} HTTP/2 connections with one open stream each\n${table(rows)}`;
}

/** Growth from the second size on: until then a heap fills that a collector keeps. */
export function flatMemoryTable(measured: readonly FlatMemory[]): string {
  const { idleMb: mostMb, growth: mostGrowth } = HTTP_MEMORY_TARGETS;
  const counts = REQUESTS.map((requests) => `${requests / 1_000} k`);
  const rows = [["memory, MB", "", "side", "before", ...counts, "growth", "", "later", ""]];
  for (const { pair, side, what, idleMb, sizesMb, laterMb } of measured) {
    const growth = (sizesMb.at(-1) ?? NaN) / (sizesMb[1] ?? NaN);
    rows.push([
      what,
      pair,
      side,
      idleMb.toFixed(1),
      ...sizesMb.map((size) => size.toFixed(1)),
      growth.toFixed(2),
      judged(pair, growth, mostGrowth),
      laterMb.toFixed(1),
      judged(pair, laterMb, mostMb),
    ]);
  }
  const title = `Memory over a million requests, and ${QUIET_MS / 1_000} s later`;
  return `${title}\n${table(rows)}`;
}

/** The latency that an answer may take is a multiple of this pair's. */
export const PACING = "haproxy";
const MOST_LATENCY = 2;

export function latencyTable(measured: readonly Latency[]): string {
  const rows = [["", "", "most/s", "sent/s", "p50 us", "p99 us", `x ${PACING}`, "p99.9 us", ""]];
  for (const { pair, protocol, saturation, sent, p50, p99, p999 } of measured) {
    const other = measured.find((one) => one.pair === PACING && one.protocol === protocol);
    const ratio = other && p99 / other.p99;
    rows.push([
      protocol === "http" ? "HTTP/1.1" : "HTTP/2",
      pair,
      ...[saturation, sent, p50, p99].map((value) => value.toFixed(0)),
      ratio?.toFixed(2) ?? "-",
      p999.toFixed(0),
      ratio === undefined ? "" : judged(pair, ratio, MOST_LATENCY),
    ]);
  }
  const title = `Latency at half of what the lower of ${POSTERN} and ${PACING} can do`;
  return `${title}\n${table(rows)}`;
}
