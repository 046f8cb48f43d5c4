/**
 * The plain texts: one thing per line, so that `grep` and `awk` are enough.
 *
 * @module
 */

import type { EndpointView } from "../proxy/mod.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import type { ListenerShown } from "./warming.ts";

/** `target::address::key::value`, as Envoy writes its clusters; last, targets that have nobody. */
export function clustersText(
  endpoints: readonly EndpointView[],
  lacking: readonly Lacking[],
): string {
  const nobody = lacking.map(({ target, lack }) => `${target}::no_endpoint::${lack}`);
  return lines([...endpoints.flatMap(endpointLines), ...nobody]);
}

/** A target that has nobody who can be dialled, and why. */
export interface Lacking {
  readonly target: string;
  readonly lack: string;
}

export function lackingOf(snapshot: Snapshot | undefined): readonly Lacking[] {
  return Object.values(snapshot?.targets ?? {}).filter(({ lack }) => lack !== "")
    .map(({ key, lack }) => ({ target: key, lack }));
}

function endpointLines(endpoint: EndpointView): readonly string[] {
  const { target, address, weight, active, failures, lastResort } = endpoint;
  const facts = {
    cx_active: active,
    consecutive_failures: failures,
    health_flags: healthOf(endpoint),
    weight,
    last_resort: lastResort,
  };
  return Object.entries(facts).map(([key, value]) => `${target}::${address}::${key}::${value}`);
}

/** In Envoy's words. */
export function healthOf({ ejectedForMs }: EndpointView): string {
  return ejectedForMs > 0 ? "/failed_outlier_check" : "healthy";
}

/** `name::address`, and what is wrong where something is. */
export function listenersText(listeners: readonly ListenerShown[]): string {
  return lines(listeners.map(({ name, address, state, error, fault }) => {
    const how = state === "listening" && fault !== "" ? "unusable" : state;
    const why = error || fault;
    const trouble = how === "listening" ? "" : `::${how}${why && `::${why}`}`;
    return `${name}::${address || "-"}${trouble}`.replaceAll("\n", " ");
  }));
}

export function lines(all: readonly string[]): string {
  return all.map((line) => `${line}\n`).join("");
}
