/**
 * The targets of Postern, and how a measured number is judged.
 *
 * Targets are counts of instructions. A machine without counters for them (most virtual ones) still has
 * processor time. There a bare relay on the same runtime, whose instructions are known, runs beside
 * Postern: its time per instruction turns Postern's time into instructions, about.
 *
 * @module
 */

import type { SideCost, SideName } from "./cell.ts";

type PerSide = Readonly<Record<SideName, number>>;

export interface Target {
  readonly kInstructions: PerSide;
  readonly systemCalls?: number;
  /** The instructions of the bare relay, counted on a machine that can. */
  readonly yardstickKInstructions: PerSide;
}

const both = (value: number): PerSide => ({ inbound: value, outbound: value });

export const TARGETS = {
  kept_alive: {
    kInstructions: both(50),
    systemCalls: 4.6,
    yardstickKInstructions: { inbound: 46, outbound: 45 },
  },
  new: {
    kInstructions: both(4_000),
    systemCalls: 34,
    yardstickKInstructions: { inbound: 3_600, outbound: 3_900 },
  },
  resumed: {
    kInstructions: { inbound: 2_500, outbound: 2_100 },
    yardstickKInstructions: { inbound: 2_180, outbound: 1_780 },
  },
  bulk: {
    kInstructions: both(2_250_000),
    yardstickKInstructions: { inbound: 2_130_000, outbound: 2_100_000 },
  },
} as const satisfies Record<string, Target>;

export const MEMORY_TARGETS = { idleMb: 58, kbPerConnection: 22, growth: 1.1 } as const;
/** Cost per request from the smallest to the largest number of upstreams and of connections. */
export const SCALE_TARGET = 1.1;

export interface Judged {
  readonly wanted: string;
  readonly met: boolean | undefined;
}

/** Counted, or estimated from the time that the yardstick takes; undefined: neither is possible. */
export function kInstructionsOf(
  target: Target,
  side: SideName,
  costs: { readonly cost: SideCost; readonly yardstick: SideCost | undefined },
): number | undefined {
  const { cost, yardstick } = costs;
  if (cost.kInstructions !== undefined) return cost.kInstructions;
  return yardstick && cost.cpuUs / yardstick.cpuUs * target.yardstickKInstructions[side];
}

export function judgeCost(
  target: Target,
  side: SideName,
  kInstructions: number | undefined,
): Judged {
  const most = target.kInstructions[side];
  return {
    wanted: `<= ${most} k`,
    met: kInstructions === undefined ? undefined : kInstructions <= most,
  };
}

export function judgeCalls(target: Target, cost: SideCost | undefined): Judged | undefined {
  if (target.systemCalls === undefined) return undefined;
  return {
    wanted: `<= ${target.systemCalls}`,
    met: cost && cost.systemCalls <= target.systemCalls,
  };
}
