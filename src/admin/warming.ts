/**
 * Listeners that wait for their secrets: the snapshot leaves them out, people must see them.
 *
 * @module
 */

import type { ListenerView } from "../proxy/mod.ts";

export interface ListenerShown extends Omit<ListenerView, "state"> {
  readonly state: ListenerView["state"] | "warming";
}

/** As a snapshot source says it: `secrets of inbound (web.pem)`, `credentials of db that ...`. */
const OF = /^(?:secrets|credentials) of (.*?)(?: listener)? (?:\(|that )/s;

/** `listeners`, and after them what warms and is not among them. */
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
      connections: 0,
    };
  });
  return [...listeners, ...waiting.filter(({ name }) => !known.has(name))];
}
