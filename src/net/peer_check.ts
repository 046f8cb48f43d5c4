/**
 * What counts against a peer, the same on both engines.
 *
 * @module
 */

import type { PeerCheck, TlsMaterial } from "./port.ts";

/** `PresentedPeer.reason`; `verdict` is the library's, `""` where it accepted. */
export function complaintOf(
  check: PeerCheck,
  leaf: Uint8Array | undefined,
  verdict: string,
): string {
  if (check === "ignored") return "";
  if (leaf === undefined) return "no certificate was presented";
  return check === "checked" ? verdict : "";
}

/** Names of more authorities than this make every handshake larger, and help no client to choose. */
const NAMED_ROOTS = 20;

/** Do the roots go to the TLS library? It names them to clients, and judges by them if `checked`. */
export function needsRoots({ peerCheck, rootPems }: TlsMaterial): boolean {
  if (peerCheck === "checked") return true;
  return peerCheck === "shown" && rootPems.length > 0 && rootPems.length <= NAMED_ROOTS;
}
