/**
 * A certificate authority that issues what Consul's built-in one does: roots with a `spiffe://<trust
 * domain>` id, leaves with empty subject and one service id, cross-signed roots for a rotation, and
 * the nameless intermediate of a secondary datacenter. For the embedded agent and for tests.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { KeyObject } from "node:crypto";
import { formatPem } from "../../../src/wire/mod.ts";
import {
  type CertificateOptions,
  generateKey,
  keyIdOf,
  type KeyKind,
  type KeyPair,
  LEAF_BACKDATE_MS,
  LEAF_TTL_MS,
  mintCertificate,
  ROOT_TTL_MS,
} from "./mint.ts";
import { formatServiceId } from "../../../src/identity/mod.ts";

/** Anything of the certificate that shall differ from what Consul would issue. */
export type CertificateOverrides = Partial<CertificateOptions>;

export interface AuthorityOptions {
  /** `<uuid>.consul`. */
  readonly trustDomain: string;
  readonly nowMs: number;
  /** Common name of the root; default one of its own, formed as Consul does. */
  readonly name?: string;
  readonly keyKind?: KeyKind;
  readonly overrides?: CertificateOverrides;
}

export interface LeafOptions {
  readonly service: string;
  /** Default `dc1`. */
  readonly datacenter?: string;
  readonly namespace?: string;
  readonly partition?: string;
  readonly nowMs?: number;
  readonly ttlMs?: number;
  readonly keyKind?: KeyKind;
  /** Certified instead of a new key. */
  readonly key?: KeyPair;
  /** Replaces the URI made of the names above. */
  readonly uri?: string;
  readonly overrides?: CertificateOverrides;
}

interface CertifyOptions {
  readonly nowMs?: number | undefined;
  readonly ttlMs?: number | undefined;
  readonly overrides?: CertificateOverrides;
}

interface Certified {
  /** Leaf first, then what links it to the root. */
  readonly certPem: string;
  readonly certDer: Uint8Array;
  /** The certificates after the leaf. */
  readonly chainDer: readonly Uint8Array[];
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

export interface IssuedLeaf extends Certified {
  readonly keyPem: string;
  readonly uri: string;
}

const CA_KEY_USAGE = ["digitalSignature", "keyCertSign", "cRLSign"] as const;
const LEAF_KEY_USAGE = [
  "digitalSignature",
  "keyEncipherment",
  "dataEncipherment",
  "keyAgreement",
] as const;
const CROSS_TTL_MS = 7 * 24 * 3_600_000;
const INTERMEDIATE_TTL_MS = 365 * 24 * 3_600_000;

interface AuthorityState {
  readonly options: AuthorityOptions;
  readonly key: KeyPair;
  readonly subject: string;
  readonly rootDer: Uint8Array;
  /** This authority's own certificates that a leaf must carry, nearest first. */
  readonly chain: readonly Uint8Array[];
}

/** One CA key with its certificate. Immutable: `withChain` and `intermediate` give new ones. */
export class Authority {
  readonly #state: AuthorityState;

  constructor(state: AuthorityState) {
    this.#state = state;
  }

  get trustDomain(): string {
    return this.#state.options.trustDomain;
  }

  get key(): KeyPair {
    return this.#state.key;
  }

  /** The certificate others trust; for an intermediate, that of its root. */
  get rootDer(): Uint8Array {
    return this.#state.rootDer;
  }

  get rootPem(): string {
    return formatPem("CERTIFICATE", this.#state.rootDer);
  }

  /** Certificates that every leaf of this authority carries after itself. */
  get chainDer(): readonly Uint8Array[] {
    return this.#state.chain;
  }

  issueLeaf(options: LeafOptions): IssuedLeaf {
    const { datacenter = "dc1", namespace = "default", partition = "default", service } = options;
    const { trustDomain } = this;
    const uri = options.uri ??
      formatServiceId({ trustDomain, partition, namespace, datacenter, service });
    const key = options.key ?? generateKey(options.keyKind);
    const certified = this.certify(key.publicKey, {
      nowMs: options.nowMs,
      ttlMs: options.ttlMs,
      overrides: { uris: [uri], ...options.overrides },
    });
    return {
      ...certified,
      keyPem: key.privateKey.export({
        type: key.privateKey.asymmetricKeyType === "ec" ? "sec1" : "pkcs8",
        format: "pem",
      }).toString(),
      uri,
    };
  }

  /** A leaf for the key of another party; its names are those of `overrides`. */
  certify(publicKey: KeyObject, options: CertifyOptions): Certified {
    const { nowMs = this.#state.options.nowMs, ttlMs = LEAF_TTL_MS } = options;
    const certificate = {
      publicKey,
      notBeforeMs: nowMs - LEAF_BACKDATE_MS,
      notAfterMs: nowMs - LEAF_BACKDATE_MS + ttlMs,
      ca: false,
      keyUsage: LEAF_KEY_USAGE,
      extendedKeyUsage: ["clientAuth", "serverAuth"],
      subjectKeyId: keyIdOf(publicKey),
      ...this.#issuer(),
      ...options.overrides,
    } as const satisfies CertificateOptions;
    const certDer = mintCertificate(certificate);
    const chainDer = this.#state.chain;
    return {
      certPem: [certDer, ...chainDer].map((der) => formatPem("CERTIFICATE", der)).join(""),
      certDer,
      chainDer,
      // Certificates hold whole seconds.
      notBeforeMs: Math.floor(certificate.notBeforeMs / 1000) * 1000,
      notAfterMs: Math.floor(certificate.notAfterMs / 1000) * 1000,
    };
  }

  /** `other`'s key certified by this one, for the week in which peers may know only the older root. */
  crossSign(other: Authority, overrides: CertificateOverrides = {}): Uint8Array {
    const { nowMs } = other.#state.options;
    return mintCertificate({
      publicKey: other.key.publicKey,
      subject: other.#state.subject,
      notBeforeMs: nowMs - LEAF_BACKDATE_MS,
      notAfterMs: nowMs - LEAF_BACKDATE_MS + CROSS_TTL_MS,
      uris: [`spiffe://${other.trustDomain}`],
      ca: {},
      keyUsage: CA_KEY_USAGE,
      subjectKeyId: keyIdOf(other.key.publicKey),
      ...this.#issuer(),
      ...overrides,
    });
  }

  /** The same authority, whose leaves carry `chain` too (Consul: leaf, cross-signed, intermediate). */
  withChain(chain: readonly Uint8Array[]): Authority {
    return new Authority({ ...this.#state, chain });
  }

  /** A signing CA below this one: nameless and with path length 0, as in a secondary datacenter. */
  intermediate(
    options: {
      readonly nowMs?: number;
      readonly keyKind?: KeyKind;
      readonly overrides?: CertificateOverrides;
    } = {},
  ): Authority {
    const { nowMs = this.#state.options.nowMs, overrides = {} } = options;
    const key = generateKey(options.keyKind);
    const der = mintCertificate({
      publicKey: key.publicKey,
      notBeforeMs: nowMs - LEAF_BACKDATE_MS,
      notAfterMs: nowMs - LEAF_BACKDATE_MS + INTERMEDIATE_TTL_MS,
      uris: [`spiffe://${this.trustDomain}`],
      ca: { pathLength: 0 },
      keyUsage: CA_KEY_USAGE,
      subjectKeyId: keyIdOf(key.publicKey),
      ...this.#issuer(),
      ...overrides,
    });
    const subject = overrides.subject ?? "";
    return new Authority({ ...this.#state, key, subject, chain: [der, ...this.#state.chain] });
  }

  #issuer(): Pick<CertificateOptions, "signer" | "issuer" | "authorityKeyId"> {
    const { key, subject } = this.#state;
    return {
      signer: key.privateKey,
      issuer: subject,
      authorityKeyId: keyIdOf(key.publicKey),
    };
  }
}

/** A new root with a new key. */
export function createAuthority(options: AuthorityOptions): Authority {
  const { trustDomain, nowMs, overrides = {} } = options;
  const key = generateKey(options.keyKind);
  const unique = Buffer.from(keyIdOf(key.publicKey).subarray(0, 4)).toString("hex");
  const name = options.name ?? `pri-${unique}.consul.ca.${trustDomain.slice(0, 8)}.consul`;
  const subject = overrides.subject ?? name;
  const rootDer = mintCertificate({
    publicKey: key.publicKey,
    signer: key.privateKey,
    subject,
    issuer: subject,
    notBeforeMs: nowMs,
    notAfterMs: nowMs + ROOT_TTL_MS,
    uris: [`spiffe://${trustDomain}`],
    ca: {},
    keyUsage: CA_KEY_USAGE,
    subjectKeyId: keyIdOf(key.publicKey),
    authorityKeyId: keyIdOf(key.publicKey),
    ...overrides,
  });
  return new Authority({ options, key, subject, rootDer, chain: [] });
}
