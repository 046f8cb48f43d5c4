/**
 * The state that one process of a proxy hands to the next, for its first connection. An unknown or damaged
 * state is no fault: the next process begins without it.
 *
 * @module
 */

import * as v from "valibot";
import type { DataPlane } from "../workers/plane.ts";

/** Changes when an earlier process cannot use the state. */
const FORMAT = 1;
const EJECTIONS_LIMIT = 10_000;
const LONGEST_MS = 24 * 3_600_000;

const Name = v.pipe(v.string(), v.maxLength(1_000));

const HandedState = v.object({
  format: v.literal(FORMAT),
  /** Endpoints that are not picked for a while. */
  ejections: v.pipe(
    v.array(v.object({
      target: Name,
      address: Name,
      forMs: v.pipe(v.number(), v.minValue(0), v.maxValue(LONGEST_MS)),
    })),
    v.maxLength(EJECTIONS_LIMIT),
  ),
});
export type HandedState = v.InferOutput<typeof HandedState>;

/** `undefined`: this process cannot use it. */
export function readHandedState(given: unknown): HandedState | undefined {
  const read = v.safeParse(HandedState, given);
  return read.success ? read.output : undefined;
}

/** An endpoint counts as ejected if it is in one data path; the longest ejection counts. */
export async function stateToHand(plane: Pick<DataPlane, "views">): Promise<HandedState> {
  const views = await plane.views({ connections: false, samples: false });
  const found = new Map<string, HandedState["ejections"][number]>();
  for (const { target, address, ejectedForMs: forMs } of views.flatMap((view) => view.endpoints)) {
    const key = `${target} ${address}`;
    if (forMs <= (found.get(key)?.forMs ?? 0)) continue;
    found.set(key, { target, address, forMs: Math.min(forMs, LONGEST_MS) });
  }
  return { format: FORMAT, ejections: [...found.values()].slice(0, EJECTIONS_LIMIT) };
}
