/**
 * What a peer showed on one of Bun's sockets.
 *
 * @module
 */

import { messageOf } from "../base/mod.ts";
import type { BunTlsError } from "./bun_owner.ts";
import type { BunSocket } from "./bun_types.ts";
import { complaintOf } from "./peer_check.ts";
import type { PeerCheck, PresentedPeer } from "./port.ts";
import { presentedCertificates } from "./session.ts";

/** Bun checks a host name where Consul has none; any other complaint is about the chain. */
const HOST_NAME_ERROR = "ERR_TLS_CERT_ALTNAME_INVALID";

/** What a peer showed; what costs something is looked up when asked for. */
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

  get resumed(): boolean {
    return this.#socket.isSessionReused();
  }
}
