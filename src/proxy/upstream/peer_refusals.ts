/**
 * What a caller's side makes of a server that ends a connection and has said nothing. In TLS 1.3 a
 * client is connected before the server has judged it, and Envoy judges only at the first byte: one that
 * denies us looks like one that closes.
 *
 * @module
 */

import type { Relay, RelayEnd } from "../../net/mod.ts";
import type { Ending } from "../observe/ending.ts";

/** Ticks after the start, or after the caller's first byte, within which an end is an answer to it. */
const AT_ONCE_TICKS = 1;
/** A caller that tries again and again fills no log with warnings. */
const WARN_EVERY_MS = 60_000;

/**
 * Did the server refuse us? Not who had spoken, and not who ended after the caller had, or later on: an
 * application may close an idle connection.
 */
export function isRefusal(relay: Relay, end: RelayEnd): boolean {
  if (relay.sentBytes > 0) return false;
  if (end.kind === "reset" && end.by === "upstream" && end.alert !== "") return true;
  // A caller may take its time to end its own half.
  const { endTick = 0, firstTick } = relay;
  return end.first === "upstream" && endTick - firstTick <= AT_ONCE_TICKS;
}

/** Of one upstream. */
export class PeerRefusals {
  #warnedMs = -Infinity;

  /** How a connection ended that is one. */
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
