/**
 * What Postern is to reach, and how a measured number is judged.
 *
 * Targets are counts of instructions. A machine without counters for them (most virtual ones) still has
 * processor time; there a target becomes a ratio to Envoy in the same run: what the target is to Envoy's
 * known instructions, Postern's time must be to Envoy's time.
 *
 * @module
 */

import type { SideCost, SideName } from "./cell.ts";

type PerSide = Readonly<Record<SideName, number>>;

export interface Target {
  readonly kInstructions: PerSide;
  readonly systemCalls?: number;
  /** Envoy 1.40 on a machine that counts, in thousands. */
  readonly envoyKInstructions: PerSide;
}

const both = (value: number): PerSide => ({ inbound: value, outbound: value });

export const TARGETS = {
  kept_alive: {
    kInstructions: both(50),
    systemCalls: 4.6,
    envoyKInstructions: { inbound: 61, outbound: 62 },
  },
  new: {
    kInstructions: both(4_000),
    systemCalls: 34,
    envoyKInstructions: { inbound: 2_980, outbound: 3_360 },
  },
  resumed: {
    kInstructions: { inbound: 2_500, outbound: 2_100 },
    envoyKInstructions: { inbound: 2_840, outbound: 3_240 },
  },
  bulk: {
    kInstructions: both(2_250_000),
    envoyKInstructions: both(2_140_000),
  },
} as const satisfies Record<string, Target>;

export const MEMORY_TARGETS = { idleMb: 58, kbPerConnection: 22, growth: 1.1 } as const;
/** Cost per request from the smallest to the largest number of upstreams and of connections. */
export const SCALE_TARGET = 1.1;

export interface Judged {
  readonly wanted: string;
  readonly met: boolean | undefined;
}

export function judgeCost(
  target: Target,
  side: SideName,
  costs: { readonly postern: SideCost | undefined; readonly envoy: SideCost | undefined },
): Judged {
  const { postern, envoy } = costs;
  const most = target.kInstructions[side];
  if (postern?.kInstructions !== undefined) {
    return { wanted: `<= ${most} k`, met: postern.kInstructions <= most };
  }
  const ratio = most / target.envoyKInstructions[side];
  return {
    wanted: `<= ${ratio.toFixed(2)} x Envoy`,
    met: postern && envoy ? postern.cpuUs / envoy.cpuUs <= ratio : undefined,
  };
}

export function judgeCalls(target: Target, cost: SideCost | undefined): Judged | undefined {
  if (target.systemCalls === undefined) return undefined;
  return {
    wanted: `<= ${target.systemCalls}`,
    met: cost && cost.systemCalls <= target.systemCalls,
  };
}
