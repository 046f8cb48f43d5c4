/**
 * From the sources of a secret's parts to the whole secret, decoded and checked so that the TLS library
 * can take it. A refusal is `credentials_invalid`: it names the file or resource and the reason, never
 * the content of a file.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import type { Secret } from "../model/secret.ts";
import type { DataSource, SecretSpec, ValidationSpec } from "../model/spec.ts";
import { loadCertificate } from "./load_certificate.ts";
import { loadValidation, mergeValidation, systemRootsPath } from "./load_validation.ts";
import {
  CRL_LIMIT_BYTES,
  type Environment,
  FILE_LIMIT_BYTES,
  type LoadContext,
  type ReadSource,
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

/** A validation merged onto the configuration's part of it. */
export function withDefaults(spec: SecretSpec, defaults: ValidationSpec | undefined): SecretSpec {
  return defaults && spec.type === "validation" ? mergeValidation(defaults, spec) : spec;
}

/** A file that a secret is made of. */
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
