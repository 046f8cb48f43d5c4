/**
 * Recognizes servers that refuse us by ending a connection without sending anything. In TLS 1.3 a client is
 * connected before the server has judged it, and Envoy judges only at the first byte: a denial looks like a
 * close.
 *
 * @module
 */

import type { Relay, RelayEnd } from "../../net/mod.ts";
import type { Ending } from "../observe/ending.ts";

/** An end within so many ticks of the start, or of the caller's first byte, is a response to it. */
const AT_ONCE_TICKS = 1;
/** Minimum pause between warnings about one upstream. */
const WARN_EVERY_MS = 60_000;

/**
 * Whether the server refused us. A server that sent bytes did not, nor one that ended after the caller did, or
 * later on: an application may close an idle connection.
 */
export function isRefusal(relay: Relay, end: RelayEnd): boolean {
  if (relay.sentBytes > 0) return false;
  if (end.kind === "reset" && end.by === "upstream" && end.alert !== "") return true;
  // A caller may end its own half much later.
  const { endTick = 0, firstTick } = relay;
  return end.first === "upstream" && endTick - firstTick <= AT_ONCE_TICKS;
}

/** The refusals by the servers of one upstream. */
export class PeerRefusals {
  #warnedMs = -Infinity;

  /** The ending of a refused connection. */
  ending(end: RelayEnd, nowMs: number): Ending {
    const quiet = nowMs - this.#warnedMs < WARN_EVERY_MS;
    if (!quiet) this.#warnedMs = nowMs;
    const alert = end.kind === "reset" ? end.alert : "";
    const reason = "the peer ended it after the handshake and sent nothing: " +
      (alert || "an intention denies us, it does not trust our certificate, its application is " +
          "down, or it has no place for us; its own log says which");
    return { kind: "failed", code: "refused_by_peer", reason, quiet };
  }
}
