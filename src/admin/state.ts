/**
 * Is it ready? In Envoy's words, with reasons.
 *
 * @module
 */

import { troubleTexts, type UpstreamTrouble } from "./upstream_troubles.ts";
import type { AdminView, CatalogState, Health } from "./view.ts";

export interface State extends Omit<Health, "notReady"> {
  /** As Envoy's `/server_info` has it; the catalog and upstreams add one each. */
  readonly name:
    | "LIVE"
    | "NOT_PASSING"
    | "UPSTREAMS_NOT_USABLE"
    | "DRAINING"
    | "PRE_INITIALIZING"
    | "INITIALIZING";
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

/** Ready, and every upstream can be used. */
export function withUpstreams(state: State, troubles: readonly UpstreamTrouble[]): State {
  if (state.reasons.length > 0 || troubles.length === 0) return state;
  return { ...state, name: "UPSTREAMS_NOT_USABLE", reasons: troubleTexts(troubles) };
}

/**
 * Ready, and Consul's catalog says so to callers. The catalog is asked only of a proxy that is ready: it
 * hears of it later.
 */
export async function withCatalog(
  state: State,
  view: AdminView,
): Promise<State | Extract<CatalogState, { kind: "unsupported" }>> {
  if (state.reasons.length > 0) return state;
  const found = await view.catalog();
  if (found.kind === "unsupported") return found;
  if (found.failing.length === 0) return state;
  return { ...state, name: "NOT_PASSING", reasons: found.failing };
}
