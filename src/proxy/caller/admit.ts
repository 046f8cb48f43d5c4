/**
 * Admission of a session: its caller is judged, it is counted against the limits, the agent agrees if it
 * is asked, and plugins have seen it. Only then is anything dialled or read for it. Bytes and HTTP take the
 * same steps in the same order.
 *
 * @module
 */

import type { Connection, Identity } from "../../plugin/mod.ts";
import { type AuthorizeMode, authorizeWithAgent, isAllowed } from "./authorize.ts";
import type { Session } from "./session.ts";

const GRANTED: unique symbol = Symbol("granted");

/** The proof that a session was admitted; only {@link admit} makes one. */
export interface Permit {
  readonly [GRANTED]: true;
}

export interface AdmitOptions {
  readonly mode: AuthorizeMode;
  /** Intentions judge the `caller` as a whole, or each of its `requests` later. */
  readonly judged: "caller" | "requests";
  /** May be called after the session has ended. */
  readonly onAdmitted: (permit: Permit) => void;
}

/** Ends with `onAdmitted`, at once or later, or ends the session. */
export function admit(session: Session, { mode, judged, onAdmitted }: AdmitOptions): void {
  if (judged === "caller") {
    if (mode !== "nobody") session.record.stage = "authorize";
    if (!isAllowed(session, mode)) return;
  }
  // Before anything is waited for: a caller that waits holds a place.
  if (!session.takePlace()) return;
  const permit: Permit = { [GRANTED]: true };
  authorizeWithAgent(session, mode, () =>
    runConnectionHooks(session, () => {
      session.observers.admitted(session.record);
      onAdmitted(permit);
    }));
}

/** Runs the `onConnection` hooks of the listener's plugins, if it has any. */
export function runConnectionHooks(session: Session, onAdmitted: () => void): void {
  const { record, context: { facts, deadlines } } = session;
  const generation = facts.plugins?.of(record.listener);
  if (!generation?.judgesConnections) return onAdmitted();
  record.stage = "plugins";
  generation.judgeConnection(connectionValue(session), {
    deadlines,
    onKnown: (refusal) => {
      if (refusal) session.end(refusal.code, refusal.reason);
      else onAdmitted();
    },
  });
}

/** The caller's connection as plugins see it. */
export function connectionValue({ record, caller }: Session): Connection {
  const { listener, direction, remote: remoteAddress } = record;
  const [ownUri = ""] = caller.ownUris;
  const { peer } = caller;
  const source: Identity | null = peer?.verified
    ? { ...(peer.id ?? NO_SERVICE), uri: peer.uri }
    : null;
  return { listener, direction, remoteAddress, ownUri, source };
}

const NO_SERVICE: Omit<Identity, "uri"> = {
  trustDomain: "",
  partition: "",
  namespace: "",
  datacenter: "",
  service: "",
};
