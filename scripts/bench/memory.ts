/** Memory of a pair: idle, per open connection, and after many connections. @module */

import { eventually, pause } from "../../test/kit/process/process.ts";
import type { SideName } from "./cell.ts";
import { residentBytes } from "./counters.ts";
import { openConnections, startLoad } from "./load.ts";
import type { Pair } from "./pairs.ts";
import type { Site } from "./site.ts";

export interface MemoryCost {
  readonly pair: string;
  readonly idleMb: Readonly<Record<SideName, number>>;
  readonly kbPerConnection?: Readonly<Record<SideName, number>>;
  readonly failed?: string;
}

export interface Flatness {
  readonly connections: number;
  readonly errors: number;
  /** Megabytes (2 ** 20 bytes) after each round. */
  readonly rounds: Readonly<Record<SideName, readonly number[]>>;
}

/** Collectors get this long to give back what is no longer used. */
const SETTLE_MS = 1_500;
/** Postern gives back what its start needed a few seconds after it. */
const IDLE_MS = 5_000;
const WARM_CONNECTIONS = 200;
const SIDES = ["inbound", "outbound"] as const;

function resident(pair: Pair, scale: number): Record<SideName, number> {
  return {
    inbound: residentBytes(pair.inbound.pid) / scale,
    outbound: residentBytes(pair.outbound.pid) / scale,
  };
}

/** For a pair that was started just now and has carried nothing yet. */
export async function measureMemory(
  site: Site,
  pair: Pair,
  connections: number,
): Promise<MemoryCost> {
  await pause(IDLE_MS);
  const idleMb = resident(pair, 1 << 20);
  try {
    // Memory that the first connections bring in stays and is not theirs.
    (await openConnections(pair.outbound.port, WARM_CONNECTIONS)).close();
    await quiet(site);
    const before = resident(pair, 1 << 10);
    const open = await openConnections(pair.outbound.port, connections);
    await pause(SETTLE_MS);
    const after = resident(pair, 1 << 10);
    const lost = open.lost();
    open.close();
    await quiet(site);
    if (lost > 0) throw new Error(`${lost} of ${connections} connections were lost`);
    const each = (side: SideName) => (after[side] - before[side]) / connections;
    return {
      pair: pair.name,
      idleMb,
      kbPerConnection: { inbound: each("inbound"), outbound: each("outbound") },
    };
  } catch (error) {
    return { pair: pair.name, idleMb, failed: error instanceof Error ? error.message : "failed" };
  }
}

async function quiet(site: Site): Promise<void> {
  await eventually("all connections are closed", async () => {
    return (await site.backend.counts()).active <= 1;
  }, { timeoutMs: 20_000 });
}

/** Memory after each of `rounds` rounds of new connections, `connections` in all. */
export async function measureFlatness(
  site: Site,
  pair: Pair,
  { connections, rounds }: { readonly connections: number; readonly rounds: number },
): Promise<Flatness> {
  const sizes: Record<SideName, number[]> = { inbound: [], outbound: [] };
  let done = 0;
  let errors = 0;
  for (let round = 1; round <= rounds; round++) {
    while (done < connections * round / rounds) {
      const report = await startLoad(site, {
        port: pair.outbound.port,
        path: "/small",
        close: true,
        connections: 16,
        seconds: 3,
      }).report;
      done += report.requests;
      errors += report.errors;
      if (report.requests === 0) {
        throw new Error("Cannot measure memory: no connection went through");
      }
    }
    await pause(SETTLE_MS / 3);
    const now = resident(pair, 1 << 20);
    for (const side of SIDES) sizes[side].push(now[side]);
  }
  return { connections: done, errors, rounds: sizes };
}
