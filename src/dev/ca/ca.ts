/**
 * The agent's certificate authority: roots with rotation and cross-signing, and leaves that are kept,
 * renewed before they end and issued anew after a rotation.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createHash, type KeyObject, randomUUID, X509Certificate } from "node:crypto";
import { type Authority, createAuthority } from "./authority.ts";
import { keyIdOf, type KeyKind } from "./mint.ts";
import type { Clock, Random, Timer } from "../../base/mod.ts";
import type { JsonObject } from "../http/decode.ts";
import { Refusal } from "../http/refusal.ts";
import type { Store } from "../catalog/store.ts";

export interface CaOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly datacenter: string;
  readonly leafTtlMs: number;
}

interface RootRecord {
  readonly id: string;
  readonly authority: Authority;
  readonly serial: number;
  readonly crossSigned: readonly string[];
  readonly active: boolean;
  readonly keyKind: KeyKind;
  readonly createIndex: number;
  readonly modifyIndex: number;
}

interface LeafRecord {
  readonly json: JsonObject;
  readonly index: number;
  readonly issuedMs: number;
  readonly timer: Timer;
}

export const ROOTS_TOPIC = "ca:roots";
export const leafTopic = (service: string): string => `ca:leaf:${service}`;

export class Ca {
  readonly #options: CaOptions;
  readonly trustDomain = `${randomUUID()}.consul`;
  #roots: readonly RootRecord[] = [];
  #serial = 6;
  readonly #leaves = new Map<string, LeafRecord>();

  constructor(options: CaOptions) {
    this.#options = options;
    this.#addRoot("ec-p256");
  }

  /** The one that signs now. */
  get authority(): Authority {
    const active = this.#roots.find((root) => root.active);
    if (!active) throw new Error("Cannot sign: no root is active");
    return active.authority;
  }

  /** As `/v1/agent/connect/ca/roots`. */
  rootsJson(): JsonObject {
    const active = this.#roots.find((root) => root.active);
    return {
      ActiveRootID: active?.id ?? "",
      TrustDomain: this.trustDomain,
      Roots: [...this.#roots].sort((a, b) => a.id < b.id ? -1 : 1).map((root) =>
        this.#rootJson(root)
      ),
    };
  }

  rootsPem(): string {
    return [...this.#roots].sort((a, b) => a.id < b.id ? -1 : 1)
      .map((root) => root.authority.rootPem).join("");
  }

  configurationJson(): JsonObject {
    return {
      Provider: "consul",
      Config: {
        IntermediateCertTTL: "8760h",
        LeafCertTTL: `${Math.round(this.#options.leafTtlMs / 3_600_000)}h`,
        RootCertTTL: "87600h",
      },
      State: null,
      ForceWithoutCrossSigning: false,
      CreateIndex: 5,
      ModifyIndex: this.#options.store.tableIndex("ca"),
    };
  }

  /**
   * A new root, cross-signed by the old one; both stay in the list. Leaves follow at once, which a real
   * agent spreads over up to 30 s.
   */
  rotate(keyKind: KeyKind): void {
    this.#addRoot(keyKind);
    for (const service of this.#leaves.keys()) this.#issue(service);
  }

  /** Takes an inactive root off the list, as pruning does. */
  prune(rootId: string): void {
    this.#roots = this.#roots.filter((root) => root.active || root.id !== rootId);
    this.#options.store.commit("ca", [ROOTS_TOPIC]);
  }

  isCached(service: string): boolean {
    return this.#leaves.has(service);
  }

  /** The leaf of a service, issued where there is none. */
  leaf(
    service: string,
  ): { readonly json: JsonObject; readonly index: number; readonly ageMs: number } {
    if (service === "") {
      throw new Refusal(500, "URI must be either service, agent, server, or kind");
    }
    if (service.includes("/")) {
      const uri =
        `spiffe://${this.trustDomain}/ns/default/dc/${this.#options.datacenter}/svc/${service}`;
      throw new Refusal(500, `SPIFFE ID is not in the expected format: ${uri}`);
    }
    const leaf = this.#leaves.get(service) ?? this.#issue(service);
    // The topic's, not the record's: it goes back with all others when indexes are rewound.
    const index = this.#options.store.topicIndex(leafTopic(service)) ?? leaf.index;
    const json = { ...leaf.json, CreateIndex: index, ModifyIndex: index };
    return { json, index, ageMs: this.#options.clock.now() - leaf.issuedMs };
  }

  /** Issues the leaf of a service anew, as a renewal does. */
  reissue(service: string): void {
    this.#issue(service);
  }

  /**
   * A certificate for somebody else's key, with these names (DER of each GeneralName), and what links it to
   * the root. Nothing is kept of it.
   */
  certify(publicKey: KeyObject, altNames: readonly Uint8Array[]): string {
    const { clock, leafTtlMs } = this.#options;
    return this.authority.certify(publicKey, {
      nowMs: clock.now(),
      ttlMs: leafTtlMs,
      overrides: { altNames, serial: serialBytes(++this.#serial) },
    }).certPem;
  }

  stop(): void {
    for (const leaf of this.#leaves.values()) leaf.timer.cancel();
  }

  #addRoot(keyKind: KeyKind): void {
    const { clock, store } = this.#options;
    const serial = ++this.#serial;
    const created = createAuthority({
      trustDomain: this.trustDomain,
      nowMs: clock.now(),
      keyKind,
      overrides: { serial: serialBytes(serial) },
    });
    const old = this.#roots.find((root) => root.active);
    const index = store.commit("ca", [ROOTS_TOPIC]);
    let authority = created;
    let crossSigned: readonly string[] = [];
    if (old) {
      const der = old.authority.crossSign(created, { serial: serialBytes(++this.#serial) });
      authority = created.withChain([der]);
      crossSigned = [pemOf(der)];
    }
    this.#roots = [
      ...this.#roots.map((root) =>
        root.active ? { ...root, active: false, modifyIndex: index } : root
      ),
      {
        id: colons(createHash("sha1").update(created.rootDer).digest()),
        authority,
        serial,
        crossSigned,
        active: true,
        keyKind,
        createIndex: index,
        modifyIndex: index,
      },
    ];
  }

  #issue(service: string): LeafRecord {
    const { clock, store, random, datacenter, leafTtlMs } = this.#options;
    this.#leaves.get(service)?.timer.cancel();
    const serial = ++this.#serial;
    const leaf = this.authority.issueLeaf({
      service,
      datacenter,
      nowMs: clock.now(),
      ttlMs: leafTtlMs,
      overrides: { serial: serialBytes(serial) },
    });
    // Like the agent: at a random moment between 60 % and 90 % of its life.
    const lifeMs = leaf.notAfterMs - clock.now();
    const timer = clock.after(lifeMs * (0.6 + 0.3 * random()), () => this.#issue(service));
    const index = store.commit("ca", [leafTopic(service)]);
    const record: LeafRecord = {
      json: {
        SerialNumber: colons(serialBytes(serial)),
        CertPEM: leaf.certPem,
        PrivateKeyPEM: leaf.keyPem,
        Service: service,
        ServiceURI: leaf.uri,
        ValidAfter: goTime(leaf.notBeforeMs),
        ValidBefore: goTime(leaf.notAfterMs),
        CreateIndex: index,
        ModifyIndex: index,
      },
      index,
      issuedMs: clock.now(),
      timer,
    };
    this.#leaves.set(service, record);
    return record;
  }

  #rootJson(root: RootRecord): JsonObject {
    const certificate = new X509Certificate(root.authority.rootPem);
    return {
      ID: root.id,
      Name: "Consul CA Primary Cert",
      SerialNumber: root.serial,
      SigningKeyID: colons(keyIdOf(root.authority.key.publicKey)),
      ExternalTrustDomain: this.trustDomain.replace(/\.consul$/, ""),
      NotBefore: goTime(Date.parse(certificate.validFrom)),
      NotAfter: goTime(Date.parse(certificate.validTo)),
      RootCert: root.authority.rootPem,
      IntermediateCerts: root.crossSigned.length > 0 ? root.crossSigned : null,
      Active: root.active,
      PrivateKeyType: root.keyKind.startsWith("rsa") ? "rsa" : "ec",
      PrivateKeyBits: Number(/\d+$/.exec(root.keyKind)?.[0] ?? 256),
      CreateIndex: root.createIndex,
      ModifyIndex: root.modifyIndex,
    };
  }
}

function serialBytes(serial: number): Uint8Array {
  const hex = serial.toString(16);
  return new Uint8Array(Buffer.from(hex.length % 2 === 1 ? `0${hex}` : hex, "hex"));
}

function colons(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

function pemOf(der: Uint8Array): string {
  return new X509Certificate(der).toString();
}

/** Times as Go writes them: whole seconds, UTC. */
function goTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}
