/** The agent's CA: roots with rotation and cross-signing, and leaves that are renewed. @module */

import { Buffer } from "node:buffer";
import { createHash, randomUUID } from "node:crypto";
import type { Clock, Random, Timer } from "../../base/mod.ts";
import { formatServiceId } from "../../identity/mod.ts";
import { formatPem } from "../../wire/mod.ts";
import { leafTopic, ROOTS, type Store } from "../store.ts";
import type { JsonObject } from "../json.ts";
import {
  generateKey,
  type Issuer,
  keyIdOf,
  type KeyKind,
  signCertificate,
} from "./certificates.ts";

interface CaOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly datacenter: string;
  readonly leafTtlMs: number;
}

interface Root {
  readonly id: string;
  readonly issuer: Issuer;
  readonly keyKind: KeyKind;
  readonly serial: number;
  readonly pem: string;
  /** This root certified by the one before it; `""`: there was none. */
  readonly crossPem: string;
  readonly notBeforeMs: number;
  readonly index: number;
}

interface Leaf {
  readonly json: JsonObject;
  readonly renewal: Timer;
}

const HOUR_MS = 3_600_000;
/** Consul dates certificates a minute back; leaves last for 72 hours, cross-signed roots for a week. */
const BACKDATE_MS = 60_000;
export const LEAF_TTL_MS: number = 72 * HOUR_MS;
const CROSS_TTL_MS = 7 * 24 * HOUR_MS;
const ROOT_TTL_MS = 10 * 365 * 24 * HOUR_MS;

export class Ca {
  readonly #options: CaOptions;
  readonly trustDomain: string = `${randomUUID()}.consul`;
  /** The last one is active. */
  #roots: readonly Root[] = [];
  #serial = 6;
  readonly #leaves = new Map<string, Leaf>();

  constructor(options: CaOptions) {
    this.#options = options;
    this.#addRoot("ec-p256");
  }

  /** Signs now; `chainPem` links what it signs to older roots. */
  get signer(): Issuer & { readonly chainPem: string } {
    const { issuer, crossPem } = this.#active;
    return { ...issuer, chainPem: crossPem };
  }

  nextSerial(): number {
    return ++this.#serial;
  }

  /** As `/v1/agent/connect/ca/roots`. */
  rootsJson(): JsonObject {
    const { id } = this.#active;
    const shown = [...this.#roots].sort((a, b) => a.id < b.id ? -1 : 1);
    return {
      ActiveRootID: id,
      TrustDomain: this.trustDomain,
      Roots: shown.map((root) => this.#rootJson(root)),
    };
  }

  configurationJson(): JsonObject {
    return {
      Provider: "consul",
      Config: { LeafCertTTL: `${Math.round(this.#options.leafTtlMs / HOUR_MS)}h` },
    };
  }

  /** A new root, cross-signed by the old one, which stays. Leaves follow at once. */
  rotate(keyKind: KeyKind): void {
    this.#addRoot(keyKind);
    for (const service of this.#leaves.keys()) this.issue(service);
  }

  /** Takes all but the active root off the list. */
  prune(): void {
    this.#roots = [this.#active];
    this.#options.store.commit([ROOTS]);
  }

  /** The leaf of a service, issued where there is none. */
  leaf(service: string): { readonly json: JsonObject; readonly index: number } {
    const { json } = this.#leaves.get(service) ?? this.issue(service);
    const index = this.#options.store.indexOf(leafTopic(service)) ?? 1;
    return { json: { ...json, CreateIndex: index, ModifyIndex: index }, index };
  }

  has(service: string): boolean {
    return this.#leaves.has(service);
  }

  issue(service: string): Leaf {
    const { clock, store, random, datacenter, leafTtlMs } = this.#options;
    const { trustDomain } = this;
    this.#leaves.get(service)?.renewal.cancel();
    const nowMs = clock.now();
    const key = generateKey("ec-p256");
    const uri = formatServiceId({
      trustDomain,
      partition: "default",
      namespace: "default",
      datacenter,
      service,
    });
    const serial = serialBytes(this.nextSerial());
    const [notBeforeMs, notAfterMs] = [nowMs - BACKDATE_MS, nowMs - BACKDATE_MS + leafTtlMs];
    const der = signCertificate({
      issuer: this.signer,
      publicKey: key.publicKey,
      subject: "",
      uri,
      serial,
      notBeforeMs,
      notAfterMs,
      isCa: false,
    });
    // As an agent does, at a random moment between 60 % and 90 % of its life.
    const renewMs = (notAfterMs - nowMs) * (0.6 + 0.3 * random());
    const leaf = {
      json: {
        SerialNumber: colons(serial),
        CertPEM: formatPem("CERTIFICATE", der) + this.signer.chainPem,
        PrivateKeyPEM: key.privateKey.export({ type: "sec1", format: "pem" }).toString(),
        Service: service,
        ServiceURI: uri,
        ValidAfter: goTime(notBeforeMs),
        ValidBefore: goTime(notAfterMs),
      },
      renewal: clock.after(renewMs, () => void this.issue(service)),
    };
    this.#leaves.set(service, leaf);
    store.commit([leafTopic(service)]);
    return leaf;
  }

  stop(): void {
    for (const { renewal } of this.#leaves.values()) renewal.cancel();
  }

  get #active(): Root {
    const active = this.#roots.at(-1);
    if (!active) throw new Error("Cannot sign: there is no root");
    return active;
  }

  #addRoot(keyKind: KeyKind): void {
    const { clock, store } = this.#options;
    const { trustDomain } = this;
    const notBeforeMs = clock.now();
    const key = generateKey(keyKind);
    const unique = Buffer.from(keyIdOf(key.publicKey).subarray(0, 4)).toString("hex");
    const name = `pri-${unique}.consul.ca.${trustDomain.slice(0, 8)}.consul`;
    const certified = (issuer: Issuer, serial: number, fromMs: number, ttlMs: number) =>
      signCertificate({
        issuer,
        publicKey: key.publicKey,
        subject: name,
        uri: `spiffe://${trustDomain}`,
        serial: serialBytes(serial),
        notBeforeMs: fromMs,
        notAfterMs: fromMs + ttlMs,
        isCa: true,
      });
    const issuer = { name, key };
    const serial = this.nextSerial();
    const der = certified(issuer, serial, notBeforeMs, ROOT_TTL_MS);
    const old = this.#roots.at(-1);
    const crossPem = old
      ? formatPem(
        "CERTIFICATE",
        certified(old.issuer, this.nextSerial(), notBeforeMs - BACKDATE_MS, CROSS_TTL_MS),
      )
      : "";
    this.#roots = [...this.#roots, {
      id: colons(createHash("sha1").update(der).digest()),
      issuer,
      keyKind,
      serial,
      pem: formatPem("CERTIFICATE", der),
      crossPem,
      notBeforeMs,
      index: store.commit([ROOTS]),
    }];
  }

  #rootJson(root: Root): JsonObject {
    return {
      ID: root.id,
      Name: "Consul CA Primary Cert",
      SerialNumber: root.serial,
      SigningKeyID: colons(keyIdOf(root.issuer.key.publicKey)),
      ExternalTrustDomain: this.trustDomain.replace(/\.consul$/, ""),
      NotBefore: goTime(root.notBeforeMs),
      NotAfter: goTime(root.notBeforeMs + ROOT_TTL_MS),
      RootCert: root.pem,
      IntermediateCerts: root.crossPem === "" ? null : [root.crossPem],
      Active: root === this.#active,
      PrivateKeyType: root.keyKind === "rsa-2048" ? "rsa" : "ec",
      PrivateKeyBits: Number(root.keyKind.slice(-4).replace(/\D/g, "")),
      CreateIndex: root.index,
      ModifyIndex: root.index,
    };
  }
}

export function serialBytes(serial: number): Uint8Array {
  const hex = serial.toString(16);
  return new Uint8Array(Buffer.from(hex.length % 2 === 1 ? `0${hex}` : hex, "hex"));
}

function colons(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

/** A time as Go writes it: whole seconds, UTC. */
function goTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}
