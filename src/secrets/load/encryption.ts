/**
 * Encrypted key material: PBES2 (RFC 8018: what OpenSSL writes since 1.1 for keys and since 3.0 for
 * PKCS#12) and the older PEM encryption with `DEK-Info`. Our own reading, not the runtime's: the two
 * runtimes take different ones, and none bounds the work that a file can ask for.
 *
 * @module
 */

import { createDecipheriv, createHash, pbkdf2, scrypt } from "node:crypto";
import { promisify } from "node:util";
import { ProxyError } from "../../base/mod.ts";
import { type DerElement, DerReader, oidOf, smallIntegerOf, TAG } from "../../wire/mod.ts";

/** OpenSSL writes 2,048; current advice is 600,000. */
export const ITERATION_LIMIT = 2_000_000;
const SCRYPT_LIMIT_BYTES = 128 << 20;
const SALT_LIMIT_BYTES = 1024;
const PBES2 = "1.2.840.113549.1.5.13";
const PBKDF2 = "1.2.840.113549.1.5.12";
const SCRYPT = "1.3.6.1.4.1.11591.4.11";

interface CipherFacts {
  readonly name: string;
  readonly keyBytes: number;
  readonly blockBytes: number;
}

const CIPHERS: Readonly<Record<string, CipherFacts>> = {
  "2.16.840.1.101.3.4.1.2": { name: "aes-128-cbc", keyBytes: 16, blockBytes: 16 },
  "2.16.840.1.101.3.4.1.22": { name: "aes-192-cbc", keyBytes: 24, blockBytes: 16 },
  "2.16.840.1.101.3.4.1.42": { name: "aes-256-cbc", keyBytes: 32, blockBytes: 16 },
  "1.2.840.113549.3.7": { name: "des-ede3-cbc", keyBytes: 24, blockBytes: 8 },
};

const HMACS: Readonly<Record<string, string>> = {
  "1.2.840.113549.2.7": "sha1",
  "1.2.840.113549.2.8": "sha224",
  "1.2.840.113549.2.9": "sha256",
  "1.2.840.113549.2.10": "sha384",
  "1.2.840.113549.2.11": "sha512",
};

export interface Sealed {
  /** AlgorithmIdentifier: what was done to the bytes. */
  readonly algorithm: DerElement;
  readonly bytes: Uint8Array;
}

/** What may still be spent on one file, in iterations. */
export interface Effort {
  left: number;
}

/** Another scheme than PBES2, by its object identifier; `undefined`: not known either. */
export type OtherScheme = (
  oid: string,
  parameters: DerReader,
  sealed: Uint8Array,
) => Uint8Array | undefined;

/** Opens what one of `what`'s encryptions closed; `password` is the bytes as given. */
export async function unseal(
  sealed: Sealed,
  options: {
    readonly password: Uint8Array;
    readonly what: string;
    readonly other?: OtherScheme;
    readonly effort?: Effort;
  },
): Promise<Uint8Array> {
  const { password, what, other, effort = { left: ITERATION_LIMIT } } = options;
  const fields = new DerReader(sealed.algorithm.body);
  const oid = oidOf(fields.read(TAG.oid, "encryption"), "encryption");
  if (oid !== PBES2) {
    const opened = other?.(oid, fields, sealed.bytes);
    return opened ?? fail(what, `its encryption ${oid} is not supported; use PBES2 with AES`);
  }
  const parameters = fields.enter(TAG.sequence, "PBES2 parameters");
  const derivation = parameters.enter(TAG.sequence, "key derivation");
  const scheme = parameters.enter(TAG.sequence, "encryption scheme");
  const cipherOid = oidOf(scheme.read(TAG.oid, "cipher"), "cipher");
  const facts = CIPHERS[cipherOid];
  if (!facts) return fail(what, `its cipher ${cipherOid} is not supported; use AES-256-CBC`);
  const iv = scheme.read(TAG.octetString, "cipher parameters").body;
  const key = await derive(derivation, { password, what, keyBytes: facts.keyBytes, effort });
  return decipher(facts, { key, iv, sealed: sealed.bytes, what });
}

/** EncryptedPrivateKeyInfo (RFC 5958 3) to the PrivateKeyInfo inside. */
export async function unsealPrivateKey(
  der: Uint8Array,
  options: {
    readonly password: Uint8Array;
    readonly what: string;
    readonly other?: OtherScheme;
    readonly effort?: Effort;
  },
): Promise<Uint8Array> {
  const outer = new DerReader(der);
  const fields = outer.enter(TAG.sequence, "encrypted key");
  outer.end("encrypted key");
  const algorithm = fields.read(TAG.sequence, "encryption");
  const bytes = fields.read(TAG.octetString, "encrypted bytes").body;
  fields.end("encrypted key");
  return await unseal({ algorithm, bytes }, options);
}

const LEGACY: Readonly<Record<string, CipherFacts>> = {
  "AES-128-CBC": { name: "aes-128-cbc", keyBytes: 16, blockBytes: 16 },
  "AES-192-CBC": { name: "aes-192-cbc", keyBytes: 24, blockBytes: 16 },
  "AES-256-CBC": { name: "aes-256-cbc", keyBytes: 32, blockBytes: 16 },
  "DES-EDE3-CBC": { name: "des-ede3-cbc", keyBytes: 24, blockBytes: 8 },
};

/** The body of a PEM block with `DEK-Info: <cipher>,<hex of the IV>` (RFC 1421, OpenSSL's key). */
export function unsealLegacyPem(
  info: string,
  options: {
    readonly sealed: Uint8Array;
    readonly password: Uint8Array;
    readonly what: string;
  },
): Uint8Array {
  const { sealed, password, what } = options;
  const match = /^\s*([A-Z0-9-]{1,32}),([0-9A-Fa-f]{16,32})\s*$/.exec(info);
  const [, name = "", hex = ""] = match ?? [];
  const facts = LEGACY[name];
  if (!facts || hex.length !== facts.blockBytes * 2) {
    return fail(what, "its DEK-Info is not supported; write the key anew: openssl pkcs8 -topk8");
  }
  const iv = Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  // EVP_BytesToKey with MD5, one round: weak, and what the format is.
  let key = new Uint8Array();
  for (let last = new Uint8Array(); key.length < facts.keyBytes;) {
    last = new Uint8Array(
      createHash("md5").update(last).update(password).update(iv.subarray(0, 8)).digest(),
    );
    key = joined(key, last);
  }
  return decipher(facts, { key: key.subarray(0, facts.keyBytes), iv, sealed, what });
}

/** Wrong padding is what a wrong password looks like; the runtime's own words are not repeated. */
export function decipher(
  facts: CipherFacts,
  options: {
    readonly key: Uint8Array;
    readonly iv: Uint8Array;
    readonly sealed: Uint8Array;
    readonly what: string;
  },
): Uint8Array {
  const { key, iv, sealed, what } = options;
  if (iv.length !== facts.blockBytes) return fail(what, "its encryption has a bad IV");
  let cipher;
  try {
    cipher = createDecipheriv(facts.name, key, iv);
  } catch {
    // The runtime does not have it: Deno has no AES-192.
    return fail(what, `its cipher ${facts.name} is not supported here; use aes-256-cbc`);
  }
  try {
    const head = new Uint8Array(cipher.update(sealed));
    return joined(head, new Uint8Array(cipher.final()));
  } catch {
    return fail(what, "the password does not fit");
  }
}

export function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}

const pbkdf2Async = promisify(pbkdf2);

async function derive(
  derivation: DerReader,
  options: {
    readonly password: Uint8Array;
    readonly what: string;
    readonly keyBytes: number;
    readonly effort: Effort;
  },
): Promise<Uint8Array> {
  const { password, what, keyBytes, effort } = options;
  const oid = oidOf(derivation.read(TAG.oid, "key derivation"), "key derivation");
  const fields = derivation.enter(TAG.sequence, "key derivation");
  const salt = fields.read(TAG.octetString, "salt").body;
  if (salt.length > SALT_LIMIT_BYTES) return fail(what, "its salt is too long");
  if (oid === PBKDF2) {
    const iterations = smallIntegerOf(fields.read(TAG.integer, "iterations"), "iterations");
    if (iterations < 1 || iterations > ITERATION_LIMIT) {
      return fail(what, `it asks for ${iterations} iterations, more than ${ITERATION_LIMIT}`);
    }
    effort.left -= iterations;
    if (effort.left < 0) return fail(what, "its parts ask for too many iterations together");
    const length = fields.optional(TAG.integer, "key length");
    if (length && smallIntegerOf(length, "key length") !== keyBytes) {
      return fail(what, "its key length does not fit its cipher");
    }
    const hmacOid = fields.done
      ? "1.2.840.113549.2.7"
      : oidOf(fields.enter(TAG.sequence, "HMAC").read(TAG.oid, "HMAC"), "HMAC");
    const hmac = HMACS[hmacOid];
    if (!hmac) return fail(what, `its HMAC ${hmacOid} is not supported; use hmacWithSHA256`);
    return new Uint8Array(await pbkdf2Async(password, salt, iterations, keyBytes, hmac));
  }
  if (oid === SCRYPT) {
    const [cost, block, parallel] = ["cost", "block size", "parallelism"].map((name) =>
      smallIntegerOf(fields.read(TAG.integer, name), name)
    );
    return await deriveScrypt({ cost, block, parallel, password, salt, keyBytes, what });
  }
  return fail(what, `its key derivation ${oid} is not supported; use PBKDF2`);
}

async function deriveScrypt(
  options: {
    readonly cost: number | undefined;
    readonly block: number | undefined;
    readonly parallel: number | undefined;
    readonly password: Uint8Array;
    readonly salt: Uint8Array;
    readonly keyBytes: number;
    readonly what: string;
  },
): Promise<Uint8Array> {
  const { cost = 0, block = 0, parallel = 0, password, salt, keyBytes, what } = options;
  const bounded = cost > 1 && (cost & (cost - 1)) === 0 && block >= 1 && block <= 64 &&
    parallel >= 1 && parallel <= 4 && cost * block * 128 <= SCRYPT_LIMIT_BYTES;
  if (!bounded) return fail(what, "its scrypt parameters are out of bounds");
  return await new Promise((resolve, reject) => {
    const settings = { N: cost, r: block, p: parallel, maxmem: SCRYPT_LIMIT_BYTES * 2 };
    scrypt(password, salt, keyBytes, settings, (error, key) => {
      if (error) reject(error);
      else resolve(new Uint8Array(key));
    });
  });
}

function fail(what: string, fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot read ${what}: ${fact}`);
}
