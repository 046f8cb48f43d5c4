/**
 * A certificate chain with its key, from its parts to a value that the TLS library takes.
 *
 * @module
 */

import { validateCertificatePair } from "../../identity/mod.ts";
import { formatPem, parsePem } from "../../wire/mod.ts";
import type { CertificateSecret } from "../model/secret.ts";
import type { CertificateSpec, DataSource } from "../model/spec.ts";
import { readPrivateKey, withoutPrivateKeys } from "./private_key.ts";
import {
  asUseFault,
  fail,
  foundInstead,
  type LoadContext,
  refuse,
  resolveSource,
  type SourceBytes,
  textOf,
} from "./source_bytes.ts";

interface Pair {
  /** The name of the pair in errors. */
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
  const { what, ...pems } = await readPair(spec, context);
  const { nowMs, tlsFault } = context;
  // The extended key usage is checked at the use: a listener needs another purpose than a dial.
  const pair = asUseFault(what, () => validateCertificatePair({ ...pems, nowMs }));
  const fault = tlsFault({ certPem: pair.certPem, keyPem: pair.keyPem, rootPems: [] });
  if (fault !== undefined) refuse(`the TLS library does not take ${what}: ${fault}`);
  return { type: "certificate", ...pair };
}

async function readPair(spec: CertificateSpec, context: LoadContext): Promise<Pair> {
  const { chain, key, pkcs12 } = spec;
  const password = spec.password && await readPassword(spec.password, context);
  if (pkcs12) {
    if (chain || key) {
      return refuse("PKCS#12 was given with a chain or a key; it holds both itself");
    }
    const { bytes, what } = await resolveSource(pkcs12, context, { role: "PKCS#12" });
    // Loaded on demand: few configurations need it.
    const { readPkcs12 } = await import("./pkcs12.ts");
    return { what, ...await readPkcs12(bytes, { what, password: password ?? new Uint8Array() }) };
  }
  if (!chain) return refuse("there is no certificate chain");
  if (!key) return refuse("there is no private key");
  // Read in a fixed order, so that of two faults the same one is always reported.
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

/** The certificates of a text, which often contains the key, too. */
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

/** The bytes without the newline that editors and `echo` append. */
async function readPassword(source: DataSource, context: LoadContext): Promise<Uint8Array> {
  const { bytes } = await resolveSource(source, context, { role: "password", limitBytes: 4096 });
  let end = bytes.length;
  if (bytes[end - 1] === 0x0a) end--;
  if (bytes[end - 1] === 0x0d) end--;
  return bytes.subarray(0, end);
}
