/**
 * A certificate chain with its key, from its parts to a value that the TLS library takes.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import { validateCertificatePair } from "../../identity/mod.ts";
import { formatPem, parsePem } from "../../wire/mod.ts";
import type { CertificateSecret } from "../secret.ts";
import type { CertificateSpec, DataSource } from "../spec.ts";
import { readPrivateKey, withoutPrivateKeys } from "./private_key.ts";
import {
  fail,
  foundInstead,
  type LoadContext,
  resolveSource,
  type SourceBytes,
  textOf,
} from "./source_bytes.ts";

interface Pair {
  /** How errors name where the pair is. */
  readonly what: string;
  readonly certPem: string;
  readonly keyPem: string;
}

export async function loadCertificate(
  spec: CertificateSpec,
  context: LoadContext,
): Promise<CertificateSecret> {
  if (spec.ocspStaple) {
    refuse("an OCSP staple was given, and one cannot be served; leave it out");
  }
  const pair = await readPair(spec, context);
  const secret = checkPair(pair, context);
  const fault = context.tlsFault({ certPem: secret.certPem, keyPem: secret.keyPem, rootPems: [] });
  if (fault !== undefined) refuse(`the TLS library does not take ${pair.what}: ${fault}`);
  return secret;
}

async function readPair(spec: CertificateSpec, context: LoadContext): Promise<Pair> {
  const { chain, key, pkcs12 } = spec;
  const password = spec.password && await readPassword(spec.password, context);
  if (pkcs12) {
    if (chain || key) {
      return refuse("PKCS#12 was given with a chain or a key; it holds both itself");
    }
    const { bytes, what } = await resolveSource(pkcs12, context, { role: "PKCS#12" });
    // It is loaded only where it is used, as everything that few configurations have.
    const { readPkcs12 } = await import("./pkcs12.ts");
    return { what, ...await readPkcs12(bytes, { what, password: password ?? new Uint8Array() }) };
  }
  if (!chain) return refuse("there is no certificate chain");
  if (!key) return refuse("there is no private key");
  // One after the other, so that of two faults the same one is always told.
  const chainBytes = await resolveSource(chain, context, { role: "certificate chain" });
  const keyBytes = await resolveSource(key, context, { role: "private key" });
  const keyPem = await readPrivateKey(textOf(keyBytes), {
    what: keyBytes.what,
    ...password && { password },
  });
  return {
    what: `${chainBytes.what} with ${keyBytes.what}`,
    certPem: certificatesOf(chainBytes),
    keyPem,
  };
}

/** Files that hold chain and key both are common; of such a text only the certificates. */
function certificatesOf(source: SourceBytes): string {
  const { what } = source;
  const text = textOf(source);
  const blocks = parsePem(withoutPrivateKeys(text, what), { what })
    .filter(({ label }) => label === "CERTIFICATE" || label === "X509 CERTIFICATE");
  if (blocks.length === 0) {
    return fail(what, `it has no CERTIFICATE block in PEM${foundInstead(text)}`);
  }
  return blocks.map(({ der }) => formatPem("CERTIFICATE", der)).join("");
}

/** The bytes without the newline that editors and `echo` leave at the end. */
export async function readPassword(
  source: DataSource,
  context: LoadContext,
): Promise<Uint8Array> {
  const { bytes } = await resolveSource(source, context, { role: "password", limitBytes: 4096 });
  let end = bytes.length;
  if (bytes[end - 1] === 0x0a) end--;
  if (bytes[end - 1] === 0x0d) end--;
  return bytes.subarray(0, end);
}

/** Which of both purposes a leaf serves shows where it is used: a listener needs another than a dial. */
function checkPair(pair: Pair, { nowMs }: LoadContext): CertificateSecret {
  const { what, certPem, keyPem } = pair;
  return asUseFault(what, () => {
    return { type: "certificate", ...validateCertificatePair({ certPem, keyPem, nowMs }) };
  });
}

/** Faults of the whole, told of `what` and not of "the certificate". */
export function asUseFault<T>(what: string, attempt: () => T): T {
  try {
    return attempt();
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error;
    const fact = error.message.replace(/^Cannot [^:]{1,60}: /, "");
    const message = `Cannot use ${what}: ${fact}`;
    throw new ProxyError("credentials_invalid", message, { cause: error });
  }
}

export function refuse(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use credentials: ${fact}`);
}
