/**
 * PKCS#12 (RFC 7292): chain and key in one encrypted file, as OpenSSL 3, Java and cert-manager write
 * it. Our own reading over the bounded DER reader: npm's pkijs costs 20 MB once imported, does not bound
 * the work that a file asks for, and reads no older encryption either. What we do not read, RC2 for one,
 * is refused with the command that writes the file anew.
 *
 * @module
 */

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { contextTag, DerReader, formatPem, oidOf, smallIntegerOf, TAG } from "../../wire/mod.ts";
import {
  decipher,
  type Effort,
  ITERATION_LIMIT,
  type Sealed,
  unseal,
  unsealPrivateKey,
} from "./encryption.ts";
import { bmpOf, derive, type HashFacts, REEXPORT, ROUND_LIMIT } from "./pkcs12_derivation.ts";
import { asFault } from "./private_key.ts";
import { fail } from "./source_bytes.ts";

export interface Pkcs12Contents {
  /** All certificates in PEM, in the file's order. */
  readonly certPem: string;
  /** PKCS#8 PEM. */
  readonly keyPem: string;
}

export interface Pkcs12Options {
  /** How errors name the file. */
  readonly what: string;
  /** As given: UTF-8. */
  readonly password: Uint8Array;
}

/** What everything in one file may take: MAC, key and certificates need 8 times as much at most. */
const ROUNDS_LIMIT = 8 * ROUND_LIMIT;
/** OpenSSL and Java write two, one with the certificates and one with the key. */
const CONTENTS_LIMIT = 10;
const BAG_LIMIT = 200;
const DEPTH_LIMIT = 4;

const OID = {
  data: "1.2.840.113549.1.7.1",
  encryptedData: "1.2.840.113549.1.7.6",
  keyBag: "1.2.840.113549.1.12.10.1.1",
  shroudedKeyBag: "1.2.840.113549.1.12.10.1.2",
  certificateBag: "1.2.840.113549.1.12.10.1.3",
  nestedBags: "1.2.840.113549.1.12.10.1.6",
  x509Certificate: "1.2.840.113549.1.9.22.1",
  sha1And3Des: "1.2.840.113549.1.12.1.3",
  sha1And128Rc2: "1.2.840.113549.1.12.1.5",
  sha1And40Rc2: "1.2.840.113549.1.12.1.6",
  pbmac1: "1.2.840.113549.1.5.14",
} as const;

const HASHES: Readonly<Record<string, HashFacts>> = {
  "1.3.14.3.2.26": { name: "sha1", blockBytes: 64 },
  "2.16.840.1.101.3.4.2.1": { name: "sha256", blockBytes: 64 },
  "2.16.840.1.101.3.4.2.2": { name: "sha384", blockBytes: 128 },
  "2.16.840.1.101.3.4.2.3": { name: "sha512", blockBytes: 128 },
};

/** Throws `credentials_invalid`; nothing is taken from a file whose MAC does not fit. */
export function readPkcs12(der: Uint8Array, options: Pkcs12Options): Promise<Pkcs12Contents> {
  return asFault(options.what, () => readWhole(der, options));
}

interface Found {
  readonly certificates: Uint8Array[];
  readonly keys: Uint8Array[];
  bags: number;
}

/** Shared by all that is derived for one file. */
interface Efforts {
  /** Rounds of PBES2, in the TLS library. */
  readonly effort: Effort;
  /** Rounds of the older schemes, here. */
  readonly rounds: Effort;
}

async function readWhole(der: Uint8Array, options: Pkcs12Options): Promise<Pkcs12Contents> {
  const { what } = options;
  // Length of unknown size: BER, as NSS and some of Windows' tools write it.
  if (der[0] === 0x30 && der[1] === 0x80) return fail(what, `it is BER, not DER; ${REEXPORT}`);
  const outer = new DerReader(der);
  const fields = outer.enter(TAG.sequence, "PKCS#12 file");
  outer.end("PKCS#12 file");
  const version = smallIntegerOf(fields.read(TAG.integer, "version"), "version");
  if (version !== 3) return fail(what, `its version is ${version}, not 3`);
  const safe = contentOf(fields, what);
  if (fields.done) return fail(what, `it has no MAC, so nobody vouches for it; ${REEXPORT}`);
  const efforts: Efforts = {
    effort: { left: 2 * ITERATION_LIMIT },
    rounds: { left: ROUNDS_LIMIT },
  };
  const mac = fields.enter(TAG.sequence, "MAC");
  const password = passwordFor(mac, { ...options, ...efforts, safe });
  const found: Found = { certificates: [], keys: [], bags: 0 };
  const whole = new DerReader(safe);
  const infos = whole.enter(TAG.sequence, "contents");
  whole.end("contents");
  const open = { ...options, ...efforts, bmp: password };
  for (let contents = 1; !infos.done; contents++) {
    if (contents > CONTENTS_LIMIT) fail(what, `it has more than ${CONTENTS_LIMIT} contents`);
    const bags = await openInfo(infos.enter(TAG.sequence, "content"), open);
    await readBags(bags, found, { ...open, depth: 0 });
  }
  const [key, second] = found.keys;
  if (!key) return fail(what, "it has no private key");
  if (second) return fail(what, "it has more than one private key");
  if (found.certificates.length === 0) return fail(what, "it has no certificate");
  return {
    certPem: found.certificates.map((bytes) => formatPem("CERTIFICATE", bytes)).join(""),
    keyPem: formatPem("PRIVATE KEY", key),
  };
}

/** The octets of a ContentInfo of type data. */
function contentOf(fields: DerReader, what: string): Uint8Array {
  const info = fields.enter(TAG.sequence, "content");
  const oid = oidOf(info.read(TAG.oid, "content type"), "content type");
  if (oid !== OID.data) return fail(what, `its contents are of type ${oid}; ${REEXPORT}`);
  const content = info.enter(contextTag(0, "constructed"), "content");
  return content.read(TAG.octetString, "content").body;
}

/** The password in the form that fits the MAC: an empty one is written in two ways. */
function passwordFor(
  mac: DerReader,
  options: Pkcs12Options & Efforts & { readonly safe: Uint8Array },
): Uint8Array {
  const { what, safe, password, rounds: effort } = options;
  const digestInfo = mac.enter(TAG.sequence, "MAC");
  const oid = oidOf(digestInfo.enter(TAG.sequence, "MAC").read(TAG.oid, "MAC"), "MAC");
  if (oid === OID.pbmac1) {
    return fail(what, "its MAC is PBMAC1; write it anew without -pbmac1_pbkdf2");
  }
  const hash = HASHES[oid] ??
    fail(what, `its MAC uses ${oid}, which is not supported; ${REEXPORT}`);
  const digest = digestInfo.read(TAG.octetString, "MAC").body;
  const salt = mac.read(TAG.octetString, "MAC salt").body;
  const rounds = mac.done ? 1 : smallIntegerOf(mac.read(TAG.integer, "MAC rounds"), "MAC rounds");
  const forms = password.length === 0
    ? [new Uint8Array(2), new Uint8Array()]
    : [bmpOf(new TextDecoder().decode(password))];
  for (const form of forms) {
    const bytes = createHash(hash.name).digest().length;
    const key = derive({ purpose: 3, hash, salt, rounds, effort, bytes, password: form, what });
    const own = createHmac(hash.name, key).update(safe).digest();
    if (own.length === digest.length && timingSafeEqual(own, digest)) return form;
  }
  return fail(what, "the password does not fit, or the file is damaged (its MAC differs)");
}

interface OpenOptions extends Pkcs12Options, Efforts {
  /** The password as the older schemes want it. */
  readonly bmp: Uint8Array;
}

/** SafeContents of one ContentInfo, decrypted where it is encrypted. */
async function openInfo(info: DerReader, options: OpenOptions): Promise<Uint8Array> {
  const { what } = options;
  const oid = oidOf(info.read(TAG.oid, "content type"), "content type");
  const content = info.enter(contextTag(0, "constructed"), "content");
  if (oid === OID.data) return content.read(TAG.octetString, "content").body;
  if (oid !== OID.encryptedData) return fail(what, `it has contents of type ${oid}; ${REEXPORT}`);
  const encrypted = content.enter(TAG.sequence, "encrypted content");
  smallIntegerOf(encrypted.read(TAG.integer, "version"), "version");
  const parts = encrypted.enter(TAG.sequence, "encrypted content");
  const type = oidOf(parts.read(TAG.oid, "content type"), "content type");
  if (type !== OID.data) return fail(what, `it has contents of type ${type}; ${REEXPORT}`);
  const algorithm = parts.read(TAG.sequence, "encryption");
  const sealed: Sealed = {
    algorithm,
    bytes: parts.read(contextTag(0, "primitive"), "encrypted content").body,
  };
  return await unseal(sealed, { ...options, other: olderSchemes(options) });
}

async function readBags(
  contents: Uint8Array,
  found: Found,
  options: OpenOptions & { readonly depth: number },
): Promise<void> {
  const { what, depth } = options;
  if (depth > DEPTH_LIMIT) fail(what, "its bags are nested too deeply");
  const whole = new DerReader(contents);
  const bags = whole.enter(TAG.sequence, "bags");
  whole.end("bags");
  while (!bags.done) {
    if (++found.bags > BAG_LIMIT) fail(what, `it has more than ${BAG_LIMIT} entries`);
    const bag = bags.enter(TAG.sequence, "bag");
    const oid = oidOf(bag.read(TAG.oid, "bag type"), "bag type");
    const value = bag.enter(contextTag(0, "constructed"), "bag");
    switch (oid) {
      case OID.keyBag:
        found.keys.push(value.read(TAG.sequence, "key").raw);
        break;
      case OID.shroudedKeyBag: {
        // One key is what there may be; the work for more is not done.
        if (found.keys.length > 0) fail(what, "it has more than one private key");
        const { raw } = value.read(TAG.sequence, "key");
        found.keys.push(await unsealPrivateKey(raw, { ...options, other: olderSchemes(options) }));
        break;
      }
      case OID.certificateBag: {
        const fields = value.enter(TAG.sequence, "certificate");
        const type = oidOf(fields.read(TAG.oid, "certificate type"), "certificate type");
        if (type !== OID.x509Certificate) fail(what, `it has a certificate of type ${type}`);
        const wrapped = fields.enter(contextTag(0, "constructed"), "certificate");
        found.certificates.push(wrapped.read(TAG.octetString, "certificate").body);
        break;
      }
      case OID.nestedBags:
        await readBags(value.read(TAG.sequence, "bags").raw, found, {
          ...options,
          depth: depth + 1,
        });
        break;
      default:
        // CRLs and secrets of other kinds are no part of a certificate with its key.
        break;
    }
  }
}

/** 3DES with SHA-1, what OpenSSL 1 and older Javas wrote for keys; RC2, for certificates, is refused. */
function olderSchemes(
  { what, bmp, rounds: effort }: OpenOptions,
): (oid: string, parameters: DerReader, sealed: Uint8Array) => Uint8Array | undefined {
  return (oid, parameters, sealed) => {
    if (oid === OID.sha1And40Rc2 || oid === OID.sha1And128Rc2) {
      return fail(what, `it is encrypted with RC2, which is too weak to be supported; ${REEXPORT}`);
    }
    if (oid !== OID.sha1And3Des) return fail(what, `its encryption ${oid} is unknown; ${REEXPORT}`);
    const fields = parameters.enter(TAG.sequence, "encryption parameters");
    const salt = fields.read(TAG.octetString, "salt").body;
    const rounds = smallIntegerOf(fields.read(TAG.integer, "rounds"), "rounds");
    const base = {
      hash: { name: "sha1", blockBytes: 64 },
      salt,
      rounds,
      effort,
      password: bmp,
      what,
    };
    const key = derive({ ...base, purpose: 1, bytes: 24 });
    const iv = derive({ ...base, purpose: 2, bytes: 8 });
    const facts = { name: "des-ede3-cbc", keyBytes: 24, blockBytes: 8 };
    return decipher(facts, { key, iv, sealed, what });
  };
}
