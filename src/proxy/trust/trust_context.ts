/**
 * One generation of credentials in use: TLS settings for both directions, the judge of peers, and session
 * tickets. A new generation takes over only what has not changed: no ticket outlives a rotation, and no
 * verdict outlives a removed root or a changed trust domain.
 *
 * @module
 */

import {
  altNamesOf,
  type CertificateIndex,
  type ChainVerdict,
  createCertificateIndex,
  judgeName,
  parseCertificate,
  type TrustedPeer,
  type Usage,
} from "../../identity/mod.ts";
import type {
  ClientTls,
  Engine,
  PeerCheck,
  PresentedPeer,
  ServerTls,
  ServerTlsChooser,
} from "../../net/mod.ts";
import { type ClientHello, parsePem } from "../../wire/mod.ts";
import { RulesJudge } from "./rules_judge.ts";
import { ServerTlsSettings, Tickets } from "./tls_settings.ts";
import type { PeerRulesInForce, ShownCertificate, TrustMaterial } from "./trust_material.ts";
import type { Clock } from "../../base/mod.ts";

export interface TrustContextOptions {
  readonly engine: Engine;
  /** Wall clock. */
  now(): number;
  /** Fetches a certificate. True: the generation then in force has it. */
  want(name: string, remote: string): Promise<boolean>;
  current(): TrustContext | undefined;
}

/** A client without a certificate, if none is required. */
const ANONYMOUS: TrustedPeer = {
  kind: "trusted",
  id: undefined,
  uri: "",
  name: "anonymous",
  serial: "",
  verified: false,
  notBeforeMs: -Infinity,
  notAfterMs: Infinity,
  rootId: "",
};

export class TrustContext {
  readonly material: TrustMaterial;
  readonly tickets = new Tickets();
  readonly #options: TrustContextOptions;
  readonly #judge: RulesJudge | undefined;
  readonly #peerCheck: PeerCheck;
  readonly #servers: ServerTlsSettings;
  #ownUris: readonly string[] | undefined;
  readonly #clients = new Map<string, ClientTls>();
  readonly #index: CertificateIndex;
  readonly #byName: ReadonlyMap<string, ShownCertificate>;
  /** The only certificate, if there is no choice. */
  readonly #only: ShownCertificate | undefined;
  /** Wall clock time at which the last certificate expires. */
  readonly #validUntilMs: number;
  /** Names that are being fetched, with the number of waiting clients. */
  readonly #wanted = new Map<string, number>();

  /** `previous`: the generation before, of the same listener or upstream. */
  constructor(material: TrustMaterial, options: TrustContextOptions, previous?: TrustContext) {
    const { peers, certificates, onDemand } = material;
    this.material = material;
    this.#options = options;
    const judge = previous && previous.#judge;
    // The judge stays while the rules are the same.
    if (judge?.of.id === peers?.id) this.#judge = judge;
    else this.#judge = peers ? new RulesJudge(peers, judge, options.now()) : undefined;
    this.#peerCheck = peerCheckOf(peers);
    const servers = new ServerTlsSettings({
      engine: options.engine,
      rootPems: rootPemsOf(peers),
      peerCheck: this.#peerCheck,
      direction: material.incoming,
      id: `${material.tlsId} ${peers?.id ?? ""}`,
    });
    this.#servers = previous?.takeOver(servers) ?? servers;
    this.#index = createCertificateIndex(certificates);
    this.#byName = new Map(
      onDemand ? certificates.map((shown) => [shown.name.toLowerCase(), shown]) : [],
    );
    this.#only = !onDemand && certificates.length === 1 ? certificates[0] : undefined;
    this.#validUntilMs = onDemand || certificates.length === 0
      ? Infinity
      : Math.max(...certificates.map(({ notAfterMs }) => notAfterMs));
  }

  /** Called when this generation takes effect. */
  begin(): void {
    this.#servers.keepOnly(this.material.certificates);
  }

  /** The server settings, if those of `next` would be the same. */
  takeOver(next: ServerTlsSettings): ServerTlsSettings | undefined {
    return this.#servers.id === next.id ? this.#servers : undefined;
  }

  /** True: the verdict on a peer may differ from that of `previous`. */
  judgesOtherwise(previous: TrustContext): boolean {
    return this.#judge !== previous.#judge || this.#mustShow !== previous.#mustShow ||
      this.material.missing.length > 0;
  }

  /** Settings to accept a connection from `remote`; `protocols` are selected by ALPN if the client offers any. */
  server(remote: string, protocols: readonly string[] = []): ServerTls | ServerTlsChooser {
    if (this.#only) return this.#servers.of(this.#only, protocols);
    return { kind: "chooser", choose: (hello) => this.#choose(hello, remote, protocols) };
  }

  /** Settings to dial a name, with ALPN `protocols`; made once for each. */
  client(serverName: string, protocols: readonly string[] = []): ClientTls {
    const key = `${serverName} ${protocols}`;
    let client = this.#clients.get(key);
    if (!client) {
      const [shown] = this.material.certificates;
      client = this.#options.engine.clientTls({
        certPem: shown?.certPem ?? "",
        keyPem: shown?.keyPem ?? "",
        rootPems: rootPemsOf(this.material.peers),
        peerCheck: this.#peerCheck,
        ...this.material.outgoing,
        protocols,
      }, { serverName });
      this.#clients.set(key, client);
    }
    return client;
  }

  /** URI names of the default certificate. */
  get ownUris(): readonly string[] {
    if (this.#ownUris) return this.#ownUris;
    const [shown] = this.material.certificates;
    const [leaf] = shown ? parsePem(shown.certPem, { what: "our certificate" }) : [];
    return this.#ownUris = leaf ? altNamesOf(parseCertificate(leaf.der)).uris : [];
  }

  /** Why these credentials must not be used now; `undefined`: they may be. */
  fault(nowMs: number): string | undefined {
    const lack = this.#lack;
    if (lack !== undefined) return lack;
    if (nowMs <= this.#validUntilMs) return undefined;
    const at = new Date(this.#validUntilMs).toISOString();
    return this.#only
      ? `our own certificate expired at ${at}`
      : `the last of our own certificates expired at ${at}`;
  }

  get #lack(): string | undefined {
    const { missing } = this.material;
    return missing.length > 0 ? `these secrets are missing: ${missing.join(", ")}` : undefined;
  }

  /** True: the credentials name the servers that may answer a dial. */
  get namesPeers(): boolean {
    return this.#judge?.namesPeers ?? false;
  }

  /** True: untrusted chains are accepted (`ACCEPT_UNTRUSTED`). */
  get acceptsAnybody(): boolean {
    const validation = this.material.peers?.validation;
    return validation !== undefined && validation.kind !== "mesh" &&
      validation.rules.acceptUntrusted;
  }

  /**
   * Our own verdict; the TLS library must agree if it verified the chain. `nowMs` is the wall clock time of the
   * handshake, for which certificates are verified; the trusted roots are the current ones. `sinceMs`: the
   * connection is open, and its handshake was that long ago.
   */
  verify(peer: PresentedPeer, { usage, nowMs, sinceMs }: {
    readonly usage: Usage;
    readonly nowMs: number;
    readonly sinceMs?: number;
  }): ChainVerdict {
    const rules = this.#judge;
    const { leaf } = peer;
    const lack = this.#lack;
    if (lack !== undefined) return untrusted(lack);
    if (!rules) return usage === "client" ? ANONYMOUS : untrusted("there are no rules for servers");
    if (!leaf) {
      return usage === "client" && !this.#mustShow
        ? ANONYMOUS
        : untrusted("no certificate was presented");
    }
    const wallMs = this.#options.now();
    const at = { usage, nowMs, presentMs: Math.max(nowMs, wallMs) };
    const shown = { leaf, chain: () => peer.chain() };
    // The wall clock may have been set; the monotonic clock may have stopped during suspend.
    const verdict = sinceMs === undefined
      ? rules.judge(shown, at)
      : rules.judgeAgain(shown, { ...at, sureMs: Math.min(wallMs, nowMs + sinceMs) });
    if (verdict.kind === "trusted" && !peer.accepted) {
      const reason = `the TLS library refused the certificate: ${peer.reason}`;
      return { kind: "untrusted", code: "chain_untrusted", reason };
    }
    return verdict;
  }

  get #mustShow(): boolean {
    return this.material.requireClientCertificate || this.namesPeers;
  }

  #choose(
    hello: ClientHello,
    remote: string,
    protocols: readonly string[],
  ): ServerTls | undefined | Promise<ServerTls | undefined> {
    const { onDemand, defaultName, certificates } = this.material;
    if (!onDemand) {
      return this.#usable(certificates[this.#index.find(hello)], protocols);
    }
    const name = hello.serverName ?? defaultName ?? undefined;
    if (name === undefined) return undefined;
    const known = this.#byName.get(name);
    if (known) return this.#usable(known, protocols);
    // Names that are refused here cost nothing, so strangers cannot cause fetches. A name that is being
    // fetched already costs next to nothing.
    const waiting = this.#wanted.get(name) ?? 0;
    const isFull = waiting === 0 && this.#wanted.size >= onDemand.maxPending;
    if (isFull || judgeName(onDemand, name) !== undefined) return undefined;
    this.#wanted.set(name, waiting + 1);
    return this.#options.want(name, remote).finally(() => {
      const left = (this.#wanted.get(name) ?? 1) - 1;
      if (left > 0) this.#wanted.set(name, left);
      else this.#wanted.delete(name);
    }).then((come) => come ? this.#options.current()?.serverNamed(name, protocols) : undefined);
  }

  /** Settings for the certificate of that name, after it was fetched. */
  serverNamed(name: string, protocols: readonly string[]): ServerTls | undefined {
    return this.#usable(this.#byName.get(name), protocols);
  }

  #usable(shown: ShownCertificate | undefined, protocols: readonly string[]) {
    if (!shown || this.#options.now() > shown.notAfterMs) return undefined;
    return this.#servers.of(shown, protocols);
  }
}

/** The TLS library verifies only Consul's chains; others have rules that it does not know. */
function peerCheckOf(peers: PeerRulesInForce | null): PeerCheck {
  if (!peers) return "ignored";
  return peers.validation.kind === "mesh" ? "checked" : "shown";
}

function rootPemsOf(peers: PeerRulesInForce | null): readonly string[] {
  switch (peers?.validation.kind) {
    case "mesh":
    case "ca":
      return peers.validation.rootPems;
    case "spiffe":
      return Object.values(peers.validation.bundles).flat();
    case undefined:
      return [];
  }
}

function untrusted(reason: string): ChainVerdict {
  return { kind: "untrusted", code: "identity_invalid", reason };
}

/** A peer's certificates, verified as of its handshake, against the roots trusted now. */
export class PeerVerdicts {
  readonly #peer: PresentedPeer;
  readonly #clock: Clock;
  /** Time of the handshake, on the wall clock and on the monotonic one. */
  readonly #shown: { readonly usage: Usage; readonly nowMs: number };
  readonly #atMs: number;

  constructor(peer: PresentedPeer, usage: Usage, clock: Clock) {
    this.#peer = peer;
    this.#clock = clock;
    this.#shown = { usage, nowMs: clock.now() };
    this.#atMs = clock.monotonic();
  }

  judge(trust: TrustContext | undefined): ChainVerdict | undefined {
    return trust?.verify(this.#peer, this.#shown);
  }

  /** Verifies the peer of an open connection again. */
  judgeAgain(trust: TrustContext | undefined): ChainVerdict | undefined {
    const sinceMs = this.#clock.monotonic() - this.#atMs;
    return trust?.verify(this.#peer, { ...this.#shown, sinceMs });
  }
}
