/**
 * A certificate chain with its key, from its parts to a value that the TLS library takes.
 *
 * @module
 */

import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import { ProxyError } from "../../base/mod.ts";
import { leafFault, parseCertificate, sameBytes, spkiOf } from "../../identity/mod.ts";
import { formatPem, parsePem } from "../../wire/mod.ts";
import type { CertificateSecret } from "../secret.ts";
import type { CertificateSpec, DataSource } from "../spec.ts";
import { asFault, readPrivateKey, withoutPrivateKeys } from "./private_key.ts";
import { fail, resolveSource, type SourceBytes, type SourceContext, textOf } from "./source.ts";

export interface CertificateContext extends SourceContext {
  readonly nowMs: number;
  /** Would the TLS library take this pair? `undefined`: yes; else what it minds. */
  readonly tlsFault: TlsFault;
}

export type TlsFault = (
  material: {
    readonly certPem: string;
    readonly keyPem: string;
    readonly rootPems: readonly string[];
  },
) => string | undefined;

interface Pair {
  /** How errors name where the pair is. */
  readonly what: string;
  readonly certPem: string;
  readonly keyPem: string;
}

export async function loadCertificate(
  spec: CertificateSpec,
  context: CertificateContext,
): Promise<CertificateSecret> {
  if (spec.ocspStaple) {
    refuse("an OCSP staple was given, and one cannot be served; leave it out");
  }
  const pair = await readPair(spec, context);
  const secret = await checkPair(pair, context);
  const fault = context.tlsFault({ certPem: secret.certPem, keyPem: secret.keyPem, rootPems: [] });
  if (fault !== undefined) refuse(`the TLS library does not take ${pair.what}: ${fault}`);
  return secret;
}

async function readPair(spec: CertificateSpec, context: CertificateContext): Promise<Pair> {
  const { chain, key, pkcs12 } = spec;
  const password = spec.password && await readPassword(spec.password, context);
  if (pkcs12) return refuse("PKCS#12 is not read yet");
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
  const blocks = parsePem(withoutPrivateKeys(textOf(source), what), { what })
    .filter(({ label }) => label === "CERTIFICATE" || label === "X509 CERTIFICATE");
  if (blocks.length === 0) return fail(what, "it has no CERTIFICATE block in PEM");
  return blocks.map(({ der }) => formatPem("CERTIFICATE", der)).join("");
}

/** The bytes without the newline that editors and `echo` leave at the end. */
export async function readPassword(
  source: DataSource,
  context: SourceContext,
): Promise<Uint8Array> {
  const { bytes } = await resolveSource(source, context, { role: "password", limitBytes: 4096 });
  let end = bytes.length;
  if (bytes[end - 1] === 0x0a) end--;
  if (bytes[end - 1] === 0x0d) end--;
  return bytes.subarray(0, end);
}

function checkPair(
  { what, certPem, keyPem }: Pair,
  { nowMs }: CertificateContext,
): Promise<CertificateSecret> {
  return asFault(what, () => {
    const key = createPrivateKey(keyPem);
    const ders = parsePem(certPem, { what }).map(({ der }) => der);
    const [first, ...others] = ders.map(parseCertificate);
    if (!first) return refuse(`${what}: there is no CERTIFICATE block`);
    const fault = leafFault(first, { nowMs, usage: "server" });
    if (fault !== undefined) return refuse(`${what}: ${fault}`);
    if (!sameBytes(first.spki, spkiOf(createPublicKey(key)))) {
      return refuse(`${what}: the private key does not belong to the leaf certificate`);
    }
    const kind = first.key.kind === "ec" ? "ecdsa" : first.key.kind;
    if (kind === "unsupported") return refuse(`${what}: the kind of key is not supported`);
    const names = new X509Certificate(first.raw).subjectAltName?.split(", ") ?? [];
    return {
      type: "certificate",
      certPem: [first, ...others].map(({ raw }) => formatPem("CERTIFICATE", raw)).join(""),
      keyPem: key.export({ type: "pkcs8", format: "pem" }).toString(),
      keyKind: kind,
      dnsNames: names.flatMap((name) => name.startsWith("DNS:") ? [name.slice(4)] : []),
      uris: first.sanUris,
      serial: first.serial,
      notBeforeMs: first.notBeforeMs,
      notAfterMs: first.notAfterMs,
    };
  });
}

export function refuse(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use credentials: ${fact}`);
}
