/**
 * Objections to a peer's certificate, the same on both engines.
 *
 * @module
 */

import type { PeerCheck, TlsMaterial } from "./port.ts";

/** `PresentedPeer.reason`; `verdict` is the library's, `""`: it accepted. */
export function complaintOf(
  check: PeerCheck,
  leaf: Uint8Array | undefined,
  verdict: string,
): string {
  if (check === "ignored") return "";
  if (leaf === undefined) return "no certificate was presented";
  return check === "checked" ? verdict : "";
}

/** More names of authorities than this make every handshake larger, and help no client to choose. */
const NAMED_ROOTS = 20;

/** Whether the TLS library gets the roots. It names them to clients, and verifies by them if `checked`. */
export function needsRoots({ peerCheck, rootPems }: TlsMaterial): boolean {
  if (peerCheck === "checked") return true;
  return peerCheck === "shown" && rootPems.length > 0 && rootPems.length <= NAMED_ROOTS;
}
