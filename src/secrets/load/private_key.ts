/**
 * The one private key of a PEM text, decrypted where it is encrypted. Whether it fits a certificate is
 * judged elsewhere.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import { formatPem, parsePem } from "../../wire/mod.ts";
import { unsealLegacyPem, unsealPrivateKey } from "./encryption.ts";
import { fail, foundInstead } from "./source_bytes.ts";

const PLAIN: ReadonlySet<string> = new Set(["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"]);
const BEGIN = /^-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY)-----/gm;

export interface KeyTextOptions {
  /** How errors name the text. */
  readonly what: string;
  readonly password?: Uint8Array;
}

/** Plain PEM of the key, in the form that it had: PKCS#8, SEC1 or PKCS#1. */
export async function readPrivateKey(text: string, options: KeyTextOptions): Promise<string> {
  const { what } = options;
  const { label, body } = onlyBlock(withPlainLines(text), what);
  if (label === "ENCRYPTED PRIVATE KEY") {
    const der = derOf(body, what);
    const password = options.password ?? fail(what, "it is encrypted and there is no password");
    const opened = await asFault(what, () => unsealPrivateKey(der, { password, what }));
    return formatPem("PRIVATE KEY", opened);
  }
  if (!PLAIN.has(label)) {
    return fail(what, `"${label}" is not supported; write it as PKCS#8: openssl pkcs8 -topk8`);
  }
  if (!/^Proc-Type:.*ENCRYPTED/m.test(body)) return formatPem(label, derOf(body, what));
  const password = options.password ?? fail(what, "it is encrypted and there is no password");
  const [, info = ""] = /^DEK-Info:(.{0,100})$/m.exec(body) ?? [];
  const sealed = derOf(body.replace(/^[A-Za-z-]{1,40}:.*$/gm, ""), what);
  return formatPem(label, unsealLegacyPem(info, { sealed, password, what }));
}

/** Encrypted keys stop the reader of PEM, and a file may hold chain and key both. */
export function withoutPrivateKeys(text: string, what: string): string {
  const lines = withPlainLines(text);
  let rest = "";
  let at = 0;
  for (const begin of lines.matchAll(BEGIN)) {
    if (begin.index < at) continue;
    rest += lines.slice(at, begin.index);
    at = bodyOf(lines, { begin, what }).endAt;
  }
  return rest + lines.slice(at);
}

function onlyBlock(text: string, what: string): { readonly label: string; readonly body: string } {
  const [begin, second] = [...text.matchAll(BEGIN)];
  if (!begin) return fail(what, `it has no PRIVATE KEY block in PEM${foundInstead(text)}`);
  if (second) return fail(what, "it has more than one PRIVATE KEY block");
  return { label: begin[1] ?? "", body: bodyOf(text, { begin, what }).body };
}

function bodyOf(
  text: string,
  { begin, what }: { readonly begin: RegExpExecArray; readonly what: string },
): { readonly body: string; readonly endAt: number } {
  const [line, label = ""] = begin;
  const bodyAt = begin.index + line.length;
  const endLine = `-----END ${label}-----`;
  const end = text.indexOf(endLine, bodyAt);
  if (end < 0) return fail(what, `its "${label}" block has no END line`);
  return { body: text.slice(bodyAt, end), endAt: end + endLine.length };
}

/** Mac line ends would hide the beginnings of lines. */
function withPlainLines(text: string): string {
  return text.replaceAll("\r\n", "\n").replaceAll("\r", "\n");
}

/** The reader of PEM refuses encrypted blocks by their label; the bytes are the same under another. */
function derOf(body: string, what: string): Uint8Array {
  const [block] = parsePem(`-----BEGIN DATA-----${body}-----END DATA-----`, { what });
  return block?.der ?? fail(what, "its PRIVATE KEY block is empty");
}

/** Faults of the DER reader speak of certificates; here they are about `what`. */
export async function asFault<T>(what: string, attempt: () => Promise<T> | T): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    if (error instanceof ProxyError && error.code === "credentials_invalid") throw error;
    // What a runtime says of bytes that it cannot read is not promised to leave them out.
    const fact = error instanceof ProxyError
      ? error.message.replace(/^Cannot read certificate: /, "")
      : "it is damaged";
    throw new ProxyError("credentials_invalid", `Cannot read ${what}: ${fact}`, { cause: error });
  }
}
