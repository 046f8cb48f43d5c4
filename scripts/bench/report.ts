/** The tables that a benchmark prints. @module */

import type { Measured, SideCost, SideName } from "./cell.ts";
import type { Flatness, MemoryCost } from "./memory.ts";
import {
  judgeCalls,
  judgeCost,
  type Judged,
  kInstructionsOf,
  MEMORY_TARGETS,
  SCALE_TARGET,
  type Target,
} from "./targets.ts";

const SIDES = ["inbound", "outbound"] as const;
export const POSTERN = "postern";
export const ENVOY = "envoy";
/** Another build of Postern. */
export const BEFORE = "before";
export const YARDSTICK = "bare relay";

export interface ScaleRow {
  readonly what: string;
  readonly measured: Measured;
}

export function costTable(
  title: string,
  measured: readonly Measured[],
  options: { readonly target: Target; readonly unit: string },
): string {
  const { target, unit } = options;
  const envoy = measured.find(({ pair }) => pair === ENVOY);
  const yardstickOf = (side: SideName) =>
    measured.find(({ pair, sides }) => pair === YARDSTICK && sides[side])?.sides[side];
  const counted = measured.some(({ sides }) =>
    SIDES.some((side) => sides[side]?.kInstructions !== undefined)
  );
  const heads = [unit, "side", counted ? "k-instr" : "~k-instr", "cpu us", "x Envoy", "syscalls"];
  const rows = [[...heads, "target", "", "calls", ""]];
  for (const one of measured) {
    if (one.failed !== undefined) {
      rows.push([one.pair, "", `failed: ${one.failed.split("\n")[0]}`]);
      continue;
    }
    for (const side of SIDES) {
      const cost = one.sides[side];
      if (!cost) continue;
      const isOurs = one.pair.startsWith(POSTERN);
      // Time means nothing for the instructions of another runtime.
      const yardstick = isOurs || one.pair === YARDSTICK ? yardstickOf(side) : undefined;
      const kInstructions = kInstructionsOf(target, side, { cost, yardstick });
      rows.push([
        one.pair,
        side,
        kInstructions === undefined ? "-" : number(kInstructions),
        number(cost.cpuUs),
        ratio(cost, envoy?.sides[side]),
        number(cost.systemCalls),
        ...shown(isOurs ? judgeCost(target, side, kInstructions) : undefined),
        ...shown(isOurs ? judgeCalls(target, cost) : undefined),
      ]);
    }
  }
  return [`${title}\n${table(rows)}`, againstBefore(measured)].filter(Boolean).join("\n");
}

function ratio(cost: SideCost, envoy: SideCost | undefined): string {
  if (!envoy) return "-";
  const value = cost.kInstructions !== undefined && envoy.kInstructions !== undefined
    ? cost.kInstructions / envoy.kInstructions
    : cost.cpuUs / envoy.cpuUs;
  return value.toFixed(2);
}

export function memoryTable(measured: readonly MemoryCost[]): string {
  const rows = [["memory", "side", "idle MB", "target", "", "KB/connection", "target", ""]];
  for (const { pair, idleMb, kbPerConnection, failed } of measured) {
    for (const side of SIDES) {
      const each = kbPerConnection?.[side];
      const ours = pair.startsWith(POSTERN);
      rows.push([
        pair,
        side,
        idleMb[side].toFixed(1),
        ...shown(ours ? atMost(idleMb[side], MEMORY_TARGETS.idleMb) : undefined),
        each === undefined ? failed ?? "-" : each.toFixed(1),
        ...shown(
          ours && each !== undefined ? atMost(each, MEMORY_TARGETS.kbPerConnection) : undefined,
        ),
      ]);
    }
  }
  return `Memory (resident, one worker)\n${table(rows)}`;
}

/** Growth from the second round on: the first ones fill the heap that a collector keeps. */
function growthOf(flatness: Flatness, side: SideName): number {
  const rounds = flatness.rounds[side];
  return (rounds.at(-1) ?? NaN) / (rounds[1] ?? NaN);
}

export function flatnessTable(flatness: Flatness): string {
  const rows = [["side", "MB after each tenth", "growth", "target", ""]];
  for (const side of SIDES) {
    const growth = growthOf(flatness, side);
    rows.push([
      side,
      flatness.rounds[side].map((size) => size.toFixed(0)).join(" "),
      growth.toFixed(2),
      ...shown(atMost(growth, MEMORY_TARGETS.growth)),
    ]);
  }
  const { connections, errors } = flatness;
  return `Memory over ${connections} connections, ${errors} errors\n${table(rows)}`;
}

/**
 * Each row against the first of its pair. Time grows with the memory that is touched even where
 * instructions do not: where only time is known, the bare relay's growth is taken off.
 */
export function scaleTable(title: string, rows: readonly ScaleRow[]): string {
  const lines = [[
    "scale",
    "pair",
    "side",
    "k-instr",
    "cpu us",
    "x first",
    "syscalls",
    "target",
    "",
  ]];
  const growth = (row: ScaleRow, side: SideName): number => {
    const first = rows.find(({ measured }) => measured.pair === row.measured.pair);
    const [cost, base] = [row.measured.sides[side], first?.measured.sides[side]];
    if (!cost || !base) return NaN;
    return (cost.kInstructions ?? cost.cpuUs) / (base.kInstructions ?? base.cpuUs);
  };
  for (const row of rows) {
    const { what, measured } = row;
    if (measured.failed !== undefined) {
      lines.push([what, measured.pair, `failed: ${measured.failed.split("\n")[0]}`]);
      continue;
    }
    const bare = rows.find((other) => other.what === what && other.measured.pair === YARDSTICK);
    for (const side of SIDES) {
      const cost = measured.sides[side];
      if (!cost) continue;
      const times = growth(row, side);
      const own = bare && cost.kInstructions === undefined ? times / growth(bare, side) : times;
      lines.push([
        what,
        measured.pair,
        side,
        cost.kInstructions === undefined ? "-" : number(cost.kInstructions),
        number(cost.cpuUs),
        times.toFixed(2),
        number(cost.systemCalls),
        ...shown(measured.pair === POSTERN ? atMost(own, SCALE_TARGET) : undefined),
      ]);
    }
  }
  return `${title}\n${table(lines)}`;
}

/** The cost of this build as a multiple of the other build's. */
export function againstBefore(measured: readonly Measured[]): string {
  const [ours, before] = [POSTERN, BEFORE].map((name) =>
    measured.find(({ pair }) => pair === name)?.sides
  );
  if (!ours || !before) return "";
  const ratios = SIDES.flatMap((side) => {
    const [own, other] = [ours[side], before[side]];
    if (!own || !other) return [];
    const calls = (own.systemCalls / other.systemCalls).toFixed(2);
    return [`${side} time ${(own.cpuUs / other.cpuUs).toFixed(3)}, system calls ${calls}`];
  });
  return ratios.length === 0 ? "" : `  ${POSTERN} / ${BEFORE}: ${ratios.join("; ")}`;
}

/** Where the calls of Postern go. */
export function callsLines(measured: readonly Measured[]): string {
  const lines: string[] = [];
  for (const { pair, sides } of measured) {
    for (const side of SIDES) {
      const calls = Object.entries(sides[side]?.calls ?? {}).filter(([, count]) => count >= 0.02);
      if (calls.length === 0) continue;
      const each = calls.map(([name, count]) => `${name} ${count.toFixed(2)}`).join(", ");
      lines.push(`  ${pair} ${side}: ${each}`);
    }
  }
  return lines.join("\n");
}

function atMost(value: number, most: number): Judged {
  return { wanted: `<= ${most}`, met: value <= most };
}

function shown(judged: Judged | undefined): [string, string] {
  if (!judged) return ["", ""];
  const { wanted, met } = judged;
  return [wanted, met === undefined ? "not judged" : met ? "met" : "MISSED"];
}

export function number(value: number): string {
  if (value >= 1_000) return value.toFixed(0);
  return value >= 100 ? value.toFixed(1) : value.toFixed(2);
}

export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    // A failure's text runs over the columns to its right.
    if (row.length === 3) continue;
    row.forEach((cell, column) => widths[column] = Math.max(widths[column] ?? 0, cell.length));
  }
  return rows.map((row) =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd()}`
  ).join("\n");
}
