/**
 * One generation of credentials at work: TLS settings for both directions, the judge of peers, and the
 * tickets of servers met. A new generation starts with nothing of the old one, so no ticket and no
 * verdict outlives a rotation, a removed root or a changed trust domain.
 *
 * @module
 */

import { type ChainVerdict, parseRoots, PeerJudge } from "../identity/mod.ts";
import type { ClientTls, Engine, PresentedPeer, ServerTls } from "../net/mod.ts";
import type { CredentialsPart, TlsDirection, TlsPart } from "../snapshot/mod.ts";
import { Tickets } from "./tickets.ts";

export class Trust {
  readonly credentials: CredentialsPart;
  readonly tls: TlsPart;
  readonly server: ServerTls;
  readonly judge: PeerJudge;
  readonly tickets = new Tickets();
  readonly #engine: Engine;
  readonly #clients = new Map<string, ClientTls>();

  constructor(engine: Engine, credentials: CredentialsPart, tls: TlsPart) {
    this.credentials = credentials;
    this.tls = tls;
    this.#engine = engine;
    this.server = engine.serverTls(materialOf(credentials, tls.incoming));
    this.judge = new PeerJudge({
      roots: parseRoots(credentials.rootPems),
      trustDomains: credentials.trustDomains,
      strictSpiffeChain: tls.strictSpiffeChain,
      generation: credentials.version,
    });
  }

  /** The settings for dialling a name; made once per name. */
  client(serverName: string): ClientTls {
    let client = this.#clients.get(serverName);
    if (!client) {
      client = this.#engine.clientTls(materialOf(this.credentials, this.tls.outgoing), {
        serverName,
      });
      this.#clients.set(serverName, client);
    }
    return client;
  }

  /** Why this identity may not be used now; undefined: it may. */
  fault(nowMs: number): string | undefined {
    const { notAfterMs } = this.credentials;
    if (nowMs <= notAfterMs) return undefined;
    return `our own certificate expired at ${new Date(notAfterMs).toISOString()}`;
  }

  /** Our own verdict, to which the runtime's must agree. */
  verify(peer: PresentedPeer, usage: "client" | "server", nowMs: number): ChainVerdict {
    if (!peer.leaf) {
      return {
        kind: "untrusted",
        code: "identity_invalid",
        reason: "no certificate was presented",
      };
    }
    const verdict = this.judge.judge(peer.leaf, () => peer.chain(), { usage, nowMs });
    if (verdict.kind === "trusted" && !peer.accepted) {
      return {
        kind: "untrusted",
        code: "chain_untrusted",
        reason: `the TLS library refused the certificate: ${peer.reason}`,
      };
    }
    return verdict;
  }
}

function materialOf(credentials: CredentialsPart, direction: TlsDirection) {
  return {
    certPem: credentials.certPem,
    keyPem: credentials.keyPem,
    rootPems: credentials.rootPems,
    minVersion: direction.minVersion,
    maxVersion: direction.maxVersion,
    cipherSuites: direction.cipherSuites,
  };
}
