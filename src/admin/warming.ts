/**
 * Listeners for display, including those that wait for secrets, which the snapshot leaves out; and which
 * listeners can carry traffic.
 *
 * @module
 */

import type { Sample } from "../base/mod.ts";
import type { ListenerView } from "../proxy/mod.ts";

export interface ListenerShown extends Omit<ListenerView, "protocol" | "state"> {
  /** Absent while it warms. */
  readonly protocol?: ListenerView["protocol"];
  readonly state: ListenerView["state"] | "warming";
}

/** The text of a snapshot source: `secrets of inbound (web.pem)`, `credentials of db that ...`. */
const OF = /^(?:secrets|credentials) of (.*?)(?: listener)? (?:\(|that )/s;

/** `listeners`, then the warming listeners that are not among them. */
export function withWarming(
  listeners: readonly ListenerView[],
  warming: readonly string[],
): readonly ListenerShown[] {
  const known = new Set(listeners.map(({ name }) => name));
  const waiting = warming.map((text): ListenerShown => {
    const name = OF.exec(text)?.[1] ?? "credentials";
    return {
      name,
      direction: name === "inbound" ? "inbound" : "outbound",
      address: "",
      state: "warming",
      error: `waiting for ${text}`,
      fault: "",
      warnings: [],
      connections: 0,
    };
  });
  return [...listeners, ...waiting.filter(({ name }) => !known.has(name))];
}

/** It is bound, and refuses no connection for lack of credentials or state. */
export function isUsable({ state, fault }: ListenerShown): boolean {
  return state === "listening" && fault === "";
}

export function usableSamples(listeners: readonly ListenerShown[]): readonly Sample[] {
  return listeners.map((shown) => ({
    name: "listener_usable",
    kind: "gauge",
    help: "1 while the listener is bound and can carry traffic, else 0",
    labels: { direction: shown.direction, listener: shown.name },
    value: isUsable(shown) ? 1 : 0,
  }));
}
