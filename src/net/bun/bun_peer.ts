/** The certificate and parameters that a peer presented on one of Bun's sockets. @module */

import { messageOf } from "../../base/mod.ts";
import type { BunSocket, BunTlsError } from "./bun_sockets.ts";
import { complaintOf } from "../tls_checks.ts";
import type { PeerCheck, PresentedPeer } from "../port.ts";

/** Bun checks a host name that mesh certificates lack; any other complaint is about the chain. */
const HOST_NAME_ERROR = "ERR_TLS_CERT_ALTNAME_INVALID";

/** Verdicts on certificates: Node's names of OpenSSL's verify errors. */
const VERDICTS: ReadonlySet<string> = new Set(
  [
    HOST_NAME_ERROR,
    "UNABLE_TO_GET_ISSUER_CERT UNABLE_TO_GET_ISSUER_CERT_LOCALLY UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    "UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN",
    "CERT_SIGNATURE_FAILURE CERT_NOT_YET_VALID CERT_HAS_EXPIRED CERT_CHAIN_TOO_LONG",
    "CERT_UNTRUSTED CERT_REJECTED INVALID_CA INVALID_PURPOSE PATH_LENGTH_EXCEEDED",
  ].join(" ").split(" "),
);

/**
 * Whether the handshake of a dialled connection was completed, with any peer. Bun reports a rejected
 * certificate like a broken handshake, and shows a leaf in both cases: also that of a server which could
 * not prove to have its key. Any error but a verdict on the certificate broke the handshake.
 */
export function wasCompleted(success: boolean, error: BunTlsError | null): boolean {
  return success || VERDICTS.has(error?.code ?? "");
}

/** See {@link PresentedPeer}; costly members are read on demand. */
export class BunPeer implements PresentedPeer {
  readonly leaf: Uint8Array | undefined;
  readonly reason: string;
  readonly #socket: BunSocket;

  constructor(socket: BunSocket, check: PeerCheck, error: BunTlsError | null) {
    this.#socket = socket;
    this.leaf = socket.getPeerX509Certificate()?.raw;
    const complaint = check === "checked" && error?.code !== HOST_NAME_ERROR ? error : null;
    this.reason = complaintOf(check, this.leaf, complaint ? messageOf(complaint) : "");
  }

  get accepted(): boolean {
    return this.reason === "";
  }

  chain(): readonly Uint8Array[] {
    const session = this.#socket.getSession();
    return session ? presentedCertificates(session) : [];
  }

  get version(): string {
    return this.#socket.getTLSVersion();
  }

  get protocol(): string {
    return this.#socket.alpnProtocol || "";
  }

  get serverName(): string {
    return this.#socket.getServername() || "";
  }

  get resumed(): boolean {
    return this.#socket.isSessionReused();
  }
}

const SEQUENCE = 0x30;
const PEER_CHAIN = 0xb3;
/** More than any sane chain; certificates beyond it are ignored. */
const MAX_CERTIFICATES = 32;

/** DER of the intermediates as presented, without the leaf; empty: there are none. */
export function presentedCertificates(session: Uint8Array): Uint8Array[] {
  const outer = element(session, 0);
  if (!outer || outer.tag !== SEQUENCE) return [];
  for (let at = outer.start; at < outer.end;) {
    const field = element(session, at);
    if (!field) return [];
    if (field.tag === PEER_CHAIN) return certificates(session, field.start, field.end);
    at = field.end;
  }
  return [];
}

function certificates(session: Uint8Array, start: number, end: number): Uint8Array[] {
  const found: Uint8Array[] = [];
  for (let at = start; at < end && found.length < MAX_CERTIFICATES;) {
    const certificate = element(session, at);
    if (!certificate || certificate.tag !== SEQUENCE || certificate.end > end) return found;
    found.push(session.subarray(at, certificate.end));
    at = certificate.end;
  }
  return found;
}

interface Element {
  readonly tag: number;
  readonly start: number;
  readonly end: number;
}

/** One DER element with a single-byte tag; undefined: it does not fit. */
function element(bytes: Uint8Array, at: number): Element | undefined {
  const tag = bytes[at];
  const first = bytes[at + 1];
  if (tag === undefined || first === undefined) return undefined;
  let start = at + 2;
  let length = first;
  if (first >= 0x80) {
    const count = first & 0x7f;
    if (count === 0 || count > 3) return undefined;
    length = 0;
    for (let index = 0; index < count; index++) {
      const byte = bytes[start++];
      if (byte === undefined) return undefined;
      length = length * 256 + byte;
    }
  }
  return start + length <= bytes.length ? { tag, start, end: start + length } : undefined;
}
