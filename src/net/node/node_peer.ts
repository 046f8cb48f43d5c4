/**
 * The certificate and parameters that a peer presented on a TLS socket of `node:tls`, and whether its
 * cipher suite is a configured one.
 *
 * @module
 */

import type * as tls from "node:tls";
import { complaintOf } from "../tls_checks.ts";
import type { PeerCheck, PresentedPeer } from "../port.ts";

/** Deno offers and takes all suites it knows and ignores the configuration; others are refused here. */
export function suiteRefused(socket: tls.TLSSocket, suites: readonly string[]): string {
  if (suites.length === 0 || socket.getProtocol() === "TLSv1.3") return "";
  const { name } = socket.getCipher();
  return suites.includes(name) ? "" : `the cipher suite ${name} is not among those configured`;
}

interface PeerCertificate {
  readonly raw?: Uint8Array;
  readonly issuerCertificate?: PeerCertificate;
}

/** `verdict`: the library's objection, `""`: none. */
export function peerOf(
  socket: tls.TLSSocket,
  check: PeerCheck,
  verdict: string,
): PresentedPeer {
  const shown = socket.getPeerCertificate(true) as PeerCertificate;
  const reason = complaintOf(check, shown.raw, verdict);
  return {
    accepted: reason === "",
    reason,
    leaf: shown.raw,
    chain() {
      const chain: Uint8Array[] = [];
      let last = shown;
      // A self-signed certificate is its own issuer; 32 is more than any sane chain.
      while (last.issuerCertificate && last.issuerCertificate !== last && chain.length < 32) {
        last = last.issuerCertificate;
        if (last.raw) chain.push(last.raw);
      }
      return chain;
    },
    version: socket.getProtocol() ?? "",
    protocol: socket.alpnProtocol || "",
    serverName: (socket as { readonly servername?: string | false }).servername || "",
    resumed: socket.isSessionReused?.() ?? false,
  };
}
