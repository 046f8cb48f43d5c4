/**
 * The state that one process of a proxy hands to the next, for its first plugin and again for its first
 * connection. An unknown or damaged state is no fault: the next process begins without it.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import * as v from "valibot";
import type { Clock, Log } from "../../base/mod.ts";
import { type CellContents, SHARED_CELLS_LIMITS } from "../../plugin/mod.ts";
import type { DataPlane, ResumedState } from "../workers/plane.ts";

/** Changes when an earlier process cannot use the state. */
const FORMAT = 1;
const EJECTIONS_LIMIT = 10_000;
const LONGEST_MS = 24 * 3_600_000;

/** The clocks of two processes may differ by so much; a message takes its time. */
const CLOCKS_APART_MS = 5_000;

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
  /** Shared state of plugins, which contains monotonic times. Absent from earlier versions. */
  cells: v.optional(v.object({
    /** The monotonic time of the process that sends them. */
    nowMs: v.number(),
    contents: v.pipe(
      v.array(v.object({ key: Name, base64: v.string() })),
      v.maxLength(SHARED_CELLS_LIMITS.keys),
      v.check(
        (all) =>
          sum(all.map(({ base64 }) => Buffer.byteLength(base64, "base64"))) <=
            SHARED_CELLS_LIMITS.bytes,
      ),
    ),
  })),
});
export type HandedState = v.InferOutput<typeof HandedState>;

/** `undefined`: this process cannot use it. */
export function readHandedState(given: unknown): HandedState | undefined {
  const read = v.safeParse(HandedState, given);
  return read.success ? read.output : undefined;
}

function sum(all: readonly number[]): number {
  return all.reduce((total, one) => total + one, 0);
}

/** The state as a data plane takes it; without cells where the clocks of the processes differ. */
export function resumedState(
  { ejections, cells }: HandedState,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): ResumedState {
  const apartMs = cells ? Math.round(clock.monotonic() - cells.nowMs) : 0;
  const isFit = cells && Math.abs(apartMs) <= CLOCKS_APART_MS;
  if (cells && !isFit) {
    const fields = { apart_ms: apartMs };
    log.warn(
      "shared state of plugins begins anew: the clock of the process before differs",
      fields,
    );
  }
  const decoded = ({ key, base64 }: { readonly key: string; readonly base64: string }) => ({
    key,
    bytes: new Uint8Array(Buffer.from(base64, "base64")),
  });
  return { ejections, cells: isFit ? cells.contents.map(decoded) : [] };
}

/** An endpoint counts as ejected if it is in one data path; the longest ejection counts. */
export async function stateToHand(
  plane: Pick<DataPlane, "views" | "cells">,
  clock: Clock,
): Promise<HandedState> {
  const views = await plane.views({ connections: false, samples: false });
  const found = new Map<string, HandedState["ejections"][number]>();
  for (const { target, address, ejectedForMs: forMs } of views.flatMap((view) => view.endpoints)) {
    const key = `${target} ${address}`;
    if (forMs <= (found.get(key)?.forMs ?? 0)) continue;
    found.set(key, { target, address, forMs: Math.min(forMs, LONGEST_MS) });
  }
  const encoded = ({ key, bytes }: CellContents) => ({
    key,
    base64: Buffer.from(bytes.buffer).toString("base64"),
  });
  return {
    format: FORMAT,
    ejections: [...found.values()].slice(0, EJECTIONS_LIMIT),
    cells: { nowMs: clock.monotonic(), contents: plane.cells().map(encoded) },
  };
}
