/** From a secret's parts to the whole one. A refusal names the file and reason, never the content. @module */

import type { Clock } from "../../base/mod.ts";
import { validateCertificatePair } from "../../identity/mod.ts";
import { formatPem, parsePem } from "../../wire/mod.ts";
import type {
  CertificateSecret,
  CertificateSpec,
  DataSource,
  Secret,
  SecretSpec,
  ValidationSpec,
} from "../model/secret.ts";
import { loadValidation, mergeValidation, systemRootsPath } from "./load_validation.ts";
import { readPrivateKey, withoutPrivateKeys } from "./private_key.ts";
import {
  asUseFault,
  CRL_LIMIT_BYTES,
  type Environment,
  fail,
  FILE_LIMIT_BYTES,
  foundInstead,
  type LoadContext,
  type ReadSource,
  refuse,
  resolveSource,
  type SourceBytes,
  textOf,
} from "./source_bytes.ts";

export interface LoadOptions extends Omit<LoadContext, "read" | "env"> {
  /** Absent: a source of kind `environment` is refused. */
  readonly env?: Environment;
}

export async function loadSecret(
  spec: SecretSpec,
  read: ReadSource,
  options: LoadOptions,
): Promise<Secret> {
  const context = { env: {}, ...options, read };
  return spec.type === "certificate"
    ? await loadCertificate(spec, context)
    : await loadValidation(spec, context);
}

/** Loads secrets at the time of the call; `read` replaces the loader's own. */
export type LoadSecret = (spec: SecretSpec, read?: ReadSource) => Promise<Secret>;

export function createLoader(
  { clock, read, ...options }: Omit<LoadOptions, "nowMs"> & {
    readonly clock: Clock;
    readonly read: ReadSource;
  },
): LoadSecret {
  return (spec, ownRead = read) => loadSecret(spec, ownRead, { ...options, nowMs: clock.now() });
}

export function withDefaults(spec: SecretSpec, defaults: ValidationSpec | undefined): SecretSpec {
  return defaults && spec.type === "validation" ? mergeValidation(defaults, spec) : spec;
}

export interface SecretFile {
  readonly path: string;
  readonly limitBytes: number;
  /** Only its owner should be able to read it. */
  readonly secret: boolean;
}

/** Every file that {@link loadSecret} reads for `spec`, once each. */
export function filesOf(spec: SecretSpec, env: Environment = {}): readonly SecretFile[] {
  const files = new Map<string, SecretFile>();
  const add = (source: DataSource | undefined, limitBytes: number, secret = false) => {
    if (source?.kind !== "file") return;
    const known = files.get(source.path);
    files.set(source.path, {
      path: source.path,
      limitBytes: Math.max(limitBytes, known?.limitBytes ?? 0),
      secret: secret || known?.secret === true,
    });
  };
  if (spec.type === "certificate") {
    add(spec.chain, FILE_LIMIT_BYTES);
    add(spec.key, FILE_LIMIT_BYTES, true);
    add(spec.pkcs12, FILE_LIMIT_BYTES, true);
    add(spec.password, FILE_LIMIT_BYTES, true);
    return [...files.values()];
  }
  add(spec.trustedCa, FILE_LIMIT_BYTES);
  add(spec.crl, CRL_LIMIT_BYTES);
  if (spec.spiffe?.kind === "map") add(spec.spiffe.source, CRL_LIMIT_BYTES);
  if (spec.spiffe?.kind === "domains") {
    for (const { bundle } of spec.spiffe.domains) add(bundle, FILE_LIMIT_BYTES);
  }
  const roots = spec.systemRoots ? systemRootsPath(env) : undefined;
  if (roots !== undefined) add({ kind: "file", path: roots }, CRL_LIMIT_BYTES);
  return [...files.values()];
}

async function loadCertificate(
  spec: CertificateSpec,
  context: LoadContext,
): Promise<CertificateSecret> {
  if (spec.ocspStaple) refuse("an OCSP staple was given, and one cannot be served; leave it out");
  const { what, ...pems } = await readPair(spec, context);
  const { nowMs, tlsFault } = context;
  // The extended key usage is checked at the use: a listener needs another purpose than a dial.
  const pair = asUseFault(what, () => validateCertificatePair({ ...pems, nowMs }));
  const fault = tlsFault({ certPem: pair.certPem, keyPem: pair.keyPem, rootPems: [] });
  if (fault !== undefined) refuse(`the TLS library does not take ${what}: ${fault}`);
  return { type: "certificate", ...pair };
}

async function readPair(spec: CertificateSpec, context: LoadContext) {
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
  const options = { what: keyBytes.what, ...password && { password } };
  const keyPem = await readPrivateKey(textOf(keyBytes), options);
  const what = `${chainBytes.what} with ${keyBytes.what}`;
  return { what, certPem: certificatesOf(chainBytes), keyPem };
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
