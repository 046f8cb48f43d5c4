/**
 * A caller that was let in, as the plugins of its listener see it, and what they say of it before anything
 * is carried for it.
 *
 * @module
 */

import type { Connection, Identity } from "../../plugin/mod.ts";
import type { Downstream } from "./downstream.ts";

/**
 * Ends with `onLetIn`, which may come when the caller has left, or ends the caller. Where no plugin looks at
 * connections it is let in at once.
 */
export function runConnectionHooks(downstream: Downstream, onLetIn: () => void): void {
  const { record, context: { facts, deadlines } } = downstream;
  const generation = facts.plugins?.of(record.listener);
  if (!generation?.looksAtConnections) return onLetIn();
  record.stage = "plugins";
  generation.lookAt(connectionValue(downstream), {
    deadlines,
    onKnown: (refusal) => {
      if (refusal) downstream.end(refusal.code, refusal.reason);
      else onLetIn();
    },
  });
}

export function connectionValue(downstream: Downstream): Connection {
  const { record: { listener, direction, remote: remoteAddress }, ownUris } = downstream;
  const [ownUri = ""] = ownUris;
  return { listener, direction, remoteAddress, ownUri, source: sourceOf(downstream) };
}

function sourceOf({ peer }: Downstream): Identity | null {
  return peer?.verified ? { ...(peer.id ?? NO_SERVICE), uri: peer.uri } : null;
}

const NO_SERVICE: Omit<Identity, "uri"> = {
  trustDomain: "",
  partition: "",
  namespace: "",
  datacenter: "",
  service: "",
};
