/**
 * One generation of credentials at work: TLS settings for both directions, the judge of peers, and the
 * tickets of servers met. What a new generation takes over from the one before is only what has not
 * changed: no ticket outlives a rotation, and no verdict a removed root or a changed trust domain.
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
import { ServerTlsSettings, versionsOf } from "./server_tls_settings.ts";
import { Tickets } from "./tickets.ts";
import type { PeerRulesInForce, ShownCertificate, TrustMaterial } from "./trust_material.ts";

export interface TrustContextOptions {
  readonly engine: Engine;
  /** Wall clock. */
  now(): number;
  /** Has a certificate fetched; true: the generation in force then has it. */
  want(name: string, remote: string): Promise<boolean>;
  /** The generation in force. */
  current(): TrustContext | undefined;
}

/** A client that was not asked for a certificate, or came without one where that is allowed. */
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
  /** The only certificate, where nothing has to be chosen. */
  readonly #only: ShownCertificate | undefined;
  /** Wall clock after which there is nothing left to show. */
  readonly #validUntilMs: number;
  /** Names that are being fetched, and how many clients wait for each. */
  readonly #wanted = new Map<string, number>();

  /** `previous`: the generation before, of the same listener or upstream. */
  constructor(material: TrustMaterial, options: TrustContextOptions, previous?: TrustContext) {
    const { peers, certificates, onDemand } = material;
    this.material = material;
    this.#options = options;
    this.#judge = peers ? judgeOf(peers, previous && previous.#judge, options.now()) : undefined;
    this.#peerCheck = peerCheckOf(peers);
    const servers = new ServerTlsSettings(options.engine, {
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

  /** From now on it is in force. */
  begin(): void {
    this.#servers.keepOnly(this.material.certificates);
  }

  /** Our settings for servers, if `next` would make the same. */
  takeOver(next: ServerTlsSettings): ServerTlsSettings | undefined {
    return this.#servers.id === next.id ? this.#servers : undefined;
  }

  /** True: a peer may be judged otherwise than by `previous`. */
  judgesOtherwise(previous: TrustContext): boolean {
    return this.#judge !== previous.#judge || this.#mustShow !== previous.#mustShow ||
      this.material.missing.length > 0;
  }

  /** For accepting a connection from there, with one of these protocols where the client offers any. */
  server(remote: string, protocols: readonly string[] = []): ServerTls | ServerTlsChooser {
    if (this.#only) return this.#servers.of(this.#only, protocols);
    return { kind: "chooser", choose: (hello) => this.#choose(hello, remote, protocols) };
  }

  /** The settings for dialling a name, with these protocols by ALPN; made once for each. */
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
        ...versionsOf(this.material.outgoing),
        protocols,
      }, { serverName });
      this.#clients.set(key, client);
    }
    return client;
  }

  /** URI names of the certificate that is shown where none fits better. */
  get ownUris(): readonly string[] {
    return this.#ownUris ??= urisOf(this.material.certificates[0]);
  }

  /** Why these credentials may not be used now; undefined: they may. */
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

  /** True: the credentials themselves say who may answer a dial. */
  get namesPeers(): boolean {
    return this.#judge?.namesPeers ?? false;
  }

  /** True: a chain that nobody vouches for is let through (`ACCEPT_UNTRUSTED`). */
  get acceptsAnybody(): boolean {
    const validation = this.material.peers?.validation;
    return validation !== undefined && validation.kind !== "mesh" &&
      validation.rules.acceptUntrusted;
  }

  /**
   * Our own verdict, to which the runtime's must agree where it was asked. `nowMs` is the wall clock of the
   * handshake: what a peer's certificates say is held against that, what we trust is that of now. `sinceMs`:
   * the peer's connection is open, and was verified that long ago.
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
    // The wall clock may have been set, the monotonic one may have stood still.
    const verdict = sinceMs === undefined
      ? rules.judge(shown, at)
      : rules.judgeAgain(shown, { ...at, sureMs: Math.min(wallMs, nowMs + sinceMs) });
    if (verdict.kind === "trusted" && !peer.accepted) {
      return {
        kind: "untrusted",
        code: "chain_untrusted",
        reason: `the TLS library refused the certificate: ${peer.reason}`,
      };
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
    // What strangers ask for costs nothing where it is refused here. Who wants what others wait for
    // already costs next to nothing.
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

  /** For a certificate that was fetched by that name. */
  serverNamed(name: string, protocols: readonly string[]): ServerTls | undefined {
    return this.#usable(this.#byName.get(name), protocols);
  }

  #usable(
    shown: ShownCertificate | undefined,
    protocols: readonly string[],
  ): ServerTls | undefined {
    if (!shown || this.#options.now() > shown.notAfterMs) return undefined;
    return this.#servers.of(shown, protocols);
  }
}

/** `previous` itself where it goes by the same rules. */
function judgeOf(
  peers: PeerRulesInForce,
  previous: RulesJudge | undefined,
  nowMs: number,
): RulesJudge {
  return previous?.of.id === peers.id ? previous : new RulesJudge(peers, previous, nowMs);
}

/** Only Consul's chains are such that the library's verdict must agree with ours. */
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

function urisOf(shown: ShownCertificate | undefined): readonly string[] {
  const [leaf] = shown ? parsePem(shown.certPem, { what: "our certificate" }) : [];
  return leaf ? altNamesOf(parseCertificate(leaf.der)).uris : [];
}

function untrusted(reason: string): ChainVerdict {
  return { kind: "untrusted", code: "identity_invalid", reason };
}
