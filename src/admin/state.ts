/**
 * Is it ready? In Envoy's words, with reasons.
 *
 * @module
 */

import type { AdminView, Health } from "./view.ts";

export interface State extends Omit<Health, "notReady"> {
  /** As Envoy's `/server_info` has it. */
  readonly name: "LIVE" | "DRAINING" | "PRE_INITIALIZING" | "INITIALIZING";
  /** Empty: ready. */
  readonly reasons: readonly string[];
}

export async function stateOf(view: AdminView): Promise<State> {
  const { notReady, ...rest } = await view.health();
  if (view.draining()) {
    return { ...rest, name: "DRAINING", reasons: ["draining: no new connections"] };
  }
  if (notReady.length === 0) return { ...rest, name: "LIVE", reasons: [] };
  const name = view.snapshot() ? "INITIALIZING" : "PRE_INITIALIZING";
  return { ...rest, name, reasons: notReady };
}
