/**
 * The one private key of a PEM text, decrypted if it is encrypted. Whether it fits a certificate is
 * checked elsewhere.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { formatPem, parsePem } from "../../wire/mod.ts";
import {
  AES_128,
  AES_192,
  AES_256,
  type CipherFacts,
  decipher,
  joined,
  TRIPLE_DES,
  unsealPrivateKey,
} from "./encryption.ts";
import { asFault, fail, foundInstead } from "./source_bytes.ts";

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
