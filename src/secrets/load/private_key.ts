/** Private keys in PEM and PBES2 (RFC 8018): the runtimes differ, and do not bound the work. @module */

import { createDecipheriv, createHash, pbkdf2, scrypt } from "node:crypto";
import {
  type DerElement,
  DerReader,
  formatPem,
  oidOf,
  parsePem,
  smallIntegerOf,
  TAG,
} from "../../wire/mod.ts";
import { asFault, fail, foundInstead } from "./source_bytes.ts";
import { promisify } from "node:util";

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

export const TRIPLE_DES: CipherFacts = { name: "des-ede3-cbc", keyBytes: 24, blockBytes: 8 };
const AES_128: CipherFacts = { name: "aes-128-cbc", keyBytes: 16, blockBytes: 16 };
const AES_192: CipherFacts = { name: "aes-192-cbc", keyBytes: 24, blockBytes: 16 };
const AES_256: CipherFacts = { name: "aes-256-cbc", keyBytes: 32, blockBytes: 16 };

const CIPHERS: Readonly<Record<string, CipherFacts>> = {
  "2.16.840.1.101.3.4.1.2": AES_128,
  "2.16.840.1.101.3.4.1.22": AES_192,
  "2.16.840.1.101.3.4.1.42": AES_256,
  "1.2.840.113549.3.7": TRIPLE_DES,
};

const PLAIN: ReadonlySet<string> = new Set(["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"]);
const BEGIN = /^-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY)-----/gm;

/** Ciphers of the PEM encryption with `DEK-Info`. */
const LEGACY_CIPHERS: Readonly<Record<string, CipherFacts>> = {
  "AES-128-CBC": AES_128,
  "AES-192-CBC": AES_192,
  "AES-256-CBC": AES_256,
  "DES-EDE3-CBC": TRIPLE_DES,
};

/** Plain PEM of the key, in the form that it had: PKCS#8, SEC1 or PKCS#1. `what` names the text in errors. */
export async function readPrivateKey(
  text: string,
  options: { readonly what: string; readonly password?: Uint8Array },
): Promise<string> {
  const { what } = options;
  const { label, body } = onlyBlock(withPlainLines(text), what);
  const passwordNeeded = () =>
    options.password ?? fail(what, "it is encrypted and there is no password");
  if (label === "ENCRYPTED PRIVATE KEY") {
    const der = derOf(body, what);
    const password = passwordNeeded();
    const opened = await asFault(what, () => unsealPrivateKey(der, { password, what }));
    return formatPem("PRIVATE KEY", opened);
  }
  if (!PLAIN.has(label)) {
    return fail(what, `"${label}" is not supported; write it as PKCS#8: openssl pkcs8 -topk8`);
  }
  if (!/^Proc-Type:.*ENCRYPTED/m.test(body)) return formatPem(label, derOf(body, what));
  const password = passwordNeeded();
  const [, info = ""] = /^DEK-Info:(.{0,100})$/m.exec(body) ?? [];
  const sealed = derOf(body.replace(/^[A-Za-z-]{1,40}:.*$/gm, ""), what);
  return formatPem(label, unsealLegacy(info, { sealed, password, what }));
}

/** The body of a PEM block with `DEK-Info: <cipher>,<hex of the IV>` (RFC 1421, OpenSSL's key). */
function unsealLegacy(
  info: string,
  { sealed, password, what }: {
    readonly sealed: Uint8Array;
    readonly password: Uint8Array;
    readonly what: string;
  },
): Uint8Array {
  const [, name = "", hex = ""] = /^\s*([A-Z0-9-]{1,32}),([0-9A-Fa-f]{16,32})\s*$/.exec(info) ?? [];
  const facts = LEGACY_CIPHERS[name];
  if (!facts || hex.length !== facts.blockBytes * 2) {
    return fail(what, "its DEK-Info is not supported; write the key anew: openssl pkcs8 -topk8");
  }
  const iv = Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  // EVP_BytesToKey with MD5 and one round: weak, but required by the format.
  let key = new Uint8Array();
  for (let last = new Uint8Array(); key.length < facts.keyBytes;) {
    last = new Uint8Array(
      createHash("md5").update(last).update(password).update(iv.subarray(0, 8)).digest(),
    );
    key = joined(key, last);
  }
  return decipher(facts, { key: key.subarray(0, facts.keyBytes), iv, sealed, what });
}

/** For texts with chain and key both: the PEM reader refuses encrypted keys. */
export function withoutPrivateKeys(text: string, what: string): string {
  const lines = withPlainLines(text);
  let rest = "";
  let at = 0;
  for (const begin of lines.matchAll(BEGIN)) {
    if (begin.index < at) continue;
    rest += lines.slice(at, begin.index);
    at = bodyOf(lines, begin, what).endAt;
  }
  return rest + lines.slice(at);
}

function onlyBlock(text: string, what: string): { readonly label: string; readonly body: string } {
  const [begin, second] = [...text.matchAll(BEGIN)];
  if (!begin) return fail(what, `it has no PRIVATE KEY block in PEM${foundInstead(text)}`);
  if (second) return fail(what, "it has more than one PRIVATE KEY block");
  return { label: begin[1] ?? "", body: bodyOf(text, begin, what).body };
}

function bodyOf(
  text: string,
  begin: RegExpExecArray,
  what: string,
): { readonly body: string; readonly endAt: number } {
  const [line, label = ""] = begin;
  const bodyAt = begin.index + line.length;
  const endLine = `-----END ${label}-----`;
  const end = text.indexOf(endLine, bodyAt);
  if (end < 0) return fail(what, `its "${label}" block has no END line`);
  return { body: text.slice(bodyAt, end), endAt: end + endLine.length };
}

/** Old Mac line ends would hide the beginnings of lines. */
function withPlainLines(text: string): string {
  return text.replaceAll("\r\n", "\n").replaceAll("\r", "\n");
}

/** The PEM reader refuses encrypted blocks by their label, so they get another one. */
function derOf(body: string, what: string): Uint8Array {
  const [block] = parsePem(`-----BEGIN DATA-----${body}-----END DATA-----`, { what });
  return block?.der ?? fail(what, "its PRIVATE KEY block is empty");
}

const HMACS: Readonly<Record<string, string>> = {
  "1.2.840.113549.2.7": "sha1",
  "1.2.840.113549.2.8": "sha224",
  "1.2.840.113549.2.9": "sha256",
  "1.2.840.113549.2.10": "sha384",
  "1.2.840.113549.2.11": "sha512",
};

export interface Sealed {
  /** AlgorithmIdentifier of the encryption. */
  readonly algorithm: DerElement;
  readonly bytes: Uint8Array;
}

/** Iterations that one file may still cost. */
export interface Effort {
  left: number;
}

export interface UnsealOptions {
  /** The bytes as given. */
  readonly password: Uint8Array;
  /** The name of the file in errors. */
  readonly what: string;
  /** A scheme other than PBES2, by its object identifier; `undefined`: unknown. */
  readonly other?: (
    oid: string,
    parameters: DerReader,
    sealed: Uint8Array,
  ) => Uint8Array | undefined;
  readonly effort?: Effort;
}

export async function unseal(sealed: Sealed, options: UnsealOptions): Promise<Uint8Array> {
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
  options: UnsealOptions,
): Promise<Uint8Array> {
  const outer = new DerReader(der);
  const fields = outer.enter(TAG.sequence, "encrypted key");
  outer.end("encrypted key");
  const algorithm = fields.read(TAG.sequence, "encryption");
  const bytes = fields.read(TAG.octetString, "encrypted bytes").body;
  fields.end("encrypted key");
  return await unseal({ algorithm, bytes }, options);
}

/** A wrong password shows as wrong padding; the runtime's message is not repeated. */
export function decipher(
  facts: CipherFacts,
  { key, iv, sealed, what }: {
    readonly key: Uint8Array;
    readonly iv: Uint8Array;
    readonly sealed: Uint8Array;
    readonly what: string;
  },
): Uint8Array {
  if (iv.length !== facts.blockBytes) return fail(what, "its encryption has a bad IV");
  let cipher;
  try {
    cipher = createDecipheriv(facts.name, key, iv);
  } catch {
    // Deno has no AES-192.
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

type DeriveOptions = Required<Pick<UnsealOptions, "password" | "what" | "effort">> & {
  readonly keyBytes: number;
};

async function derive(derivation: DerReader, options: DeriveOptions): Promise<Uint8Array> {
  const { password, what, keyBytes, effort } = options;
  const oid = oidOf(derivation.read(TAG.oid, "key derivation"), "key derivation");
  const fields = derivation.enter(TAG.sequence, "key derivation");
  const salt = fields.read(TAG.octetString, "salt").body;
  if (salt.length > SALT_LIMIT_BYTES) return fail(what, "its salt is too long");
  if (oid === SCRYPT) return await deriveScrypt(fields, salt, options);
  if (oid !== PBKDF2) return fail(what, `its key derivation ${oid} is not supported; use PBKDF2`);
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

async function deriveScrypt(
  fields: DerReader,
  salt: Uint8Array,
  { password, what, keyBytes }: DeriveOptions,
): Promise<Uint8Array> {
  const [cost = 0, block = 0, parallel = 0] = ["cost", "block size", "parallelism"].map((name) =>
    smallIntegerOf(fields.read(TAG.integer, name), name)
  );
  const isBounded = cost > 1 && (cost & (cost - 1)) === 0 && block >= 1 && block <= 64 &&
    parallel >= 1 && parallel <= 4 && cost * block * 128 <= SCRYPT_LIMIT_BYTES;
  if (!isBounded) return fail(what, "its scrypt parameters are out of bounds");
  return await new Promise((resolve, reject) => {
    const settings = { N: cost, r: block, p: parallel, maxmem: SCRYPT_LIMIT_BYTES * 2 };
    scrypt(password, salt, keyBytes, settings, (error, key) => {
      if (error) reject(error);
      else resolve(new Uint8Array(key));
    });
  });
}
