/**
 * The plain texts: one thing per line, so that `grep` and `awk` are enough.
 *
 * @module
 */

import type { EndpointView } from "../proxy/mod.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import { listenerName } from "./envoy/listeners.ts";
import type { ListenerShown } from "./warming.ts";

/** A target that has nobody who can be dialled, and why. */
export interface EmptyTarget {
  readonly target: string;
  readonly lack: string;
}

export function lackingOf(snapshot: Snapshot | undefined): readonly EmptyTarget[] {
  return Object.values(snapshot?.targets ?? {}).filter(({ lack }) => lack !== "")
    .map(({ key, lack }) => ({ target: key, lack }));
}

/** In Envoy's words. */
export function healthOf({ ejectedForMs }: EndpointView): string {
  return ejectedForMs > 0 ? "/failed_outlier_check" : "healthy";
}

/** `name::address` as Envoy writes them, and what is wrong where something is. */
export function listenersText(
  listeners: readonly ListenerShown[],
  snapshot: Snapshot | undefined,
): string {
  return lines(listeners.map((listener) => {
    const { address, state, error, fault } = listener;
    const name = listenerName(listener, snapshot);
    const how = state === "listening" && fault !== "" ? "unusable" : state;
    const why = error || fault;
    const trouble = how === "listening" ? "" : `::${how}${why && `::${why}`}`;
    return `${name}::${address || "-"}${trouble}`.replaceAll("\n", " ");
  }));
}

export function lines(all: readonly string[]): string {
  return all.map((line) => `${line}\n`).join("");
}
