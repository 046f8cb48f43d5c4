/**
 * Is it ready? In Envoy's words, with reasons.
 *
 * @module
 */

import type { AdminView } from "./view.ts";

export interface State {
  /** As Envoy's `/server_info` has it. */
  readonly name: "LIVE" | "DRAINING" | "PRE_INITIALIZING" | "INITIALIZING";
  /** Empty: ready. */
  readonly reasons: readonly string[];
}

export function stateOf(view: AdminView): State {
  if (view.draining()) return { name: "DRAINING", reasons: ["draining: no new connections"] };
  const reasons = view.notReady();
  if (reasons.length === 0) return { name: "LIVE", reasons };
  return { name: view.snapshot() ? "INITIALIZING" : "PRE_INITIALIZING", reasons };
}
