/**
 * PKCS#12 (RFC 7292): chain and key in one encrypted file, as OpenSSL 3, Java and cert-manager write it. Read
 * with our own bounded DER reader: npm's pkijs costs 20 MB when it is imported and does not bound the work
 * that a file demands. An encryption that is not read is refused with the command that writes the file again.
 *
 * @module
 */

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { contextTag, DerReader, formatPem, oidOf, smallIntegerOf, TAG } from "../../wire/mod.ts";
import {
  decipher,
  type Effort,
  ITERATION_LIMIT,
  joined,
  TRIPLE_DES,
  unseal,
  type UnsealOptions,
  unsealPrivateKey,
} from "./private_key.ts";
import { asFault, fail } from "./source_bytes.ts";

interface Pkcs12Contents {
  /** All certificates in PEM, in the file's order. */
  readonly certPem: string;
  /** PKCS#8 PEM. */
  readonly keyPem: string;
}

interface Pkcs12Options {
  /** The name of the file in errors. */
  readonly what: string;
  /** UTF-8. */
  readonly password: Uint8Array;
}

const REEXPORT: string =
  "write it anew: openssl pkcs12 -legacy -in OLD -nodes | openssl pkcs12 --out NEW";
/** These rounds run in JavaScript, not in the TLS library; OpenSSL writes 2,048, Java 10,000. */
const ROUND_LIMIT = 100_000;

interface HashFacts {
  readonly name: string;
  readonly blockBytes: number;
}

/** Rounds of one whole file: MAC, key and certificates need 8 times a key's at most. */
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

const SHA1: HashFacts = { name: "sha1", blockBytes: 64 };
const HASHES: Readonly<Record<string, HashFacts>> = {
  "1.3.14.3.2.26": SHA1,
  "2.16.840.1.101.3.4.2.1": { name: "sha256", blockBytes: 64 },
  "2.16.840.1.101.3.4.2.2": { name: "sha384", blockBytes: 128 },
  "2.16.840.1.101.3.4.2.3": { name: "sha512", blockBytes: 128 },
};

/** Throws `credentials_invalid`; a file whose MAC does not fit is not used at all. */
export function readPkcs12(der: Uint8Array, options: Pkcs12Options): Promise<Pkcs12Contents> {
  return asFault(options.what, () => readWhole(der, options));
}

interface Reading {
  readonly what: string;
  /** For encrypted parts. */
  readonly unsealing: UnsealOptions;
  readonly certificates: Uint8Array[];
  readonly keys: Uint8Array[];
  bags: number;
}

async function readWhole(der: Uint8Array, options: Pkcs12Options): Promise<Pkcs12Contents> {
  const { what } = options;
  // A length of unknown size is BER, which NSS and some Windows tools write.
  if (der[0] === 0x30 && der[1] === 0x80) return fail(what, `it is BER, not DER; ${REEXPORT}`);
  const outer = new DerReader(der);
  const fields = outer.enter(TAG.sequence, "PKCS#12 file");
  outer.end("PKCS#12 file");
  const version = smallIntegerOf(fields.read(TAG.integer, "version"), "version");
  if (version !== 3) return fail(what, `its version is ${version}, not 3`);
  const safe = contentOf(fields, what);
  if (fields.done) return fail(what, `it has no MAC, so nobody vouches for it; ${REEXPORT}`);
  // Rounds of the older schemes, which run here; PBES2's run in the TLS library.
  const rounds: Effort = { left: ROUNDS_LIMIT };
  const mac = fields.enter(TAG.sequence, "MAC");
  const bmp = passwordFor(mac, { ...options, rounds, safe });
  const reading: Reading = {
    what,
    unsealing: {
      ...options,
      effort: { left: 2 * ITERATION_LIMIT },
      other: olderSchemes({ what, bmp, effort: rounds }),
    },
    certificates: [],
    keys: [],
    bags: 0,
  };
  const whole = new DerReader(safe);
  const infos = whole.enter(TAG.sequence, "contents");
  whole.end("contents");
  for (let contents = 1; !infos.done; contents++) {
    if (contents > CONTENTS_LIMIT) fail(what, `it has more than ${CONTENTS_LIMIT} contents`);
    await readBags(await openInfo(infos.enter(TAG.sequence, "content"), reading), reading, 0);
  }
  const { certificates, keys: [key, second] } = reading;
  if (!key) return fail(what, "it has no private key");
  if (second) return fail(what, "it has more than one private key");
  if (certificates.length === 0) return fail(what, "it has no certificate");
  return {
    certPem: certificates.map((bytes) => formatPem("CERTIFICATE", bytes)).join(""),
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

/** The password in the form that fits the MAC: there are two forms of an empty one. */
function passwordFor(
  mac: DerReader,
  { what, safe, password, rounds: effort }: Pkcs12Options & {
    readonly safe: Uint8Array;
    readonly rounds: Effort;
  },
): Uint8Array {
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

/** SafeContents of one ContentInfo, decrypted if it is encrypted. */
async function openInfo(info: DerReader, { what, unsealing }: Reading): Promise<Uint8Array> {
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
  const bytes = parts.read(contextTag(0, "primitive"), "encrypted content").body;
  return await unseal({ algorithm, bytes }, unsealing);
}

async function readBags(contents: Uint8Array, reading: Reading, depth: number): Promise<void> {
  const { what, keys, certificates } = reading;
  if (depth > DEPTH_LIMIT) fail(what, "its bags are nested too deeply");
  const whole = new DerReader(contents);
  const bags = whole.enter(TAG.sequence, "bags");
  whole.end("bags");
  while (!bags.done) {
    if (++reading.bags > BAG_LIMIT) fail(what, `it has more than ${BAG_LIMIT} entries`);
    const bag = bags.enter(TAG.sequence, "bag");
    const oid = oidOf(bag.read(TAG.oid, "bag type"), "bag type");
    const value = bag.enter(contextTag(0, "constructed"), "bag");
    switch (oid) {
      case OID.keyBag:
        keys.push(value.read(TAG.sequence, "key").raw);
        break;
      case OID.shroudedKeyBag: {
        // Only one key is allowed: a second one is not worth the work.
        if (keys.length > 0) fail(what, "it has more than one private key");
        const { raw } = value.read(TAG.sequence, "key");
        keys.push(await unsealPrivateKey(raw, reading.unsealing));
        break;
      }
      case OID.certificateBag: {
        const fields = value.enter(TAG.sequence, "certificate");
        const type = oidOf(fields.read(TAG.oid, "certificate type"), "certificate type");
        if (type !== OID.x509Certificate) fail(what, `it has a certificate of type ${type}`);
        const wrapped = fields.enter(contextTag(0, "constructed"), "certificate");
        certificates.push(wrapped.read(TAG.octetString, "certificate").body);
        break;
      }
      case OID.nestedBags:
        await readBags(value.read(TAG.sequence, "bags").raw, reading, depth + 1);
        break;
      default:
        // CRL bags and secret bags are ignored: they are no part of a certificate with its key.
        break;
    }
  }
}

/** 3DES with SHA-1, which OpenSSL 1 and older Javas wrote for keys; RC2, for certificates, is refused. */
function olderSchemes(
  { what, bmp, effort }: {
    readonly what: string;
    readonly bmp: Uint8Array;
    readonly effort: Effort;
  },
): NonNullable<UnsealOptions["other"]> {
  return (oid, parameters, sealed) => {
    if (oid === OID.sha1And40Rc2 || oid === OID.sha1And128Rc2) {
      return fail(what, `it is encrypted with RC2, which is too weak to be supported; ${REEXPORT}`);
    }
    if (oid !== OID.sha1And3Des) return fail(what, `its encryption ${oid} is unknown; ${REEXPORT}`);
    const fields = parameters.enter(TAG.sequence, "encryption parameters");
    const salt = fields.read(TAG.octetString, "salt").body;
    const rounds = smallIntegerOf(fields.read(TAG.integer, "rounds"), "rounds");
    const base = { hash: SHA1, salt, rounds, effort, password: bmp, what };
    const key = derive({ ...base, purpose: 1, bytes: 24 });
    const iv = derive({ ...base, purpose: 2, bytes: 8 });
    return decipher(TRIPLE_DES, { key, iv, sealed, what });
  };
}

/** RFC 7292 B.2: `purpose` 1 gives keys, 2 IVs, 3 keys of MACs. */
export function derive(
  options: {
    readonly purpose: 1 | 2 | 3;
    readonly hash: HashFacts;
    readonly salt: Uint8Array;
    readonly rounds: number;
    readonly effort: Effort;
    readonly bytes: number;
    readonly password: Uint8Array;
    readonly what: string;
  },
): Uint8Array {
  const { purpose, hash, salt, rounds, effort, bytes, password, what } = options;
  if (rounds < 1 || rounds > ROUND_LIMIT) {
    return fail(what, `it asks for ${rounds} rounds, more than ${ROUND_LIMIT}; ${REEXPORT}`);
  }
  if (salt.length > 1024) return fail(what, "its salt is too long");
  const { blockBytes } = hash;
  const diversifier = new Uint8Array(blockBytes).fill(purpose);
  const mixed = joined(repeated(salt, blockBytes), repeated(password, blockBytes));
  const derived: number[] = [];
  while (derived.length < bytes) {
    effort.left -= rounds;
    if (effort.left < 0) {
      return fail(what, `its parts ask for too many rounds together; ${REEXPORT}`);
    }
    let last = createHash(hash.name).update(diversifier).update(mixed).digest();
    for (let round = 1; round < rounds; round++) last = createHash(hash.name).update(last).digest();
    derived.push(...last);
    const addend = repeated(last, blockBytes).subarray(0, blockBytes);
    for (let at = 0; at < mixed.length; at += blockBytes) {
      addOneMore(mixed.subarray(at, at + blockBytes), addend);
    }
  }
  return Uint8Array.from(derived.slice(0, bytes));
}

/** `block = block + addend + 1`, big-endian, the carry out lost. */
function addOneMore(block: Uint8Array, addend: Uint8Array): void {
  let carry = 1;
  for (let at = block.length - 1; at >= 0; at--) {
    carry += (block[at] ?? 0) + (addend[at] ?? 0);
    block[at] = carry & 0xff;
    carry >>= 8;
  }
}

/** Copies of `bytes` to whole blocks; no bytes give no block. */
function repeated(bytes: Uint8Array, blockBytes: number): Uint8Array {
  const length = blockBytes * Math.ceil(bytes.length / blockBytes);
  return Uint8Array.from({ length }, (_, at) => bytes[at % bytes.length] ?? 0);
}

/** UTF-16, big-endian, with its final zero. */
export function bmpOf(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length * 2 + 2);
  for (let at = 0; at < text.length; at++) {
    bytes[at * 2] = text.charCodeAt(at) >> 8;
    bytes[at * 2 + 1] = text.charCodeAt(at) & 0xff;
  }
  return bytes;
}
