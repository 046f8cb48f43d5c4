/** Envoy's `Secret`, in proto3's JSON: a `TlsCertificate` or a validation context. @module */

import * as v from "valibot";
import { ProxyError } from "../../base/mod.ts";
import {
  checked,
  defined,
  formatPath,
  parsed,
  type Problem,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import type { CertificateSpec, SecretSpec } from "../model/secret.ts";
import { dataSource, message, type SecretOptions, watchedDirectory } from "./message.ts";
import { validationContext } from "./validation_context.ts";

export interface NamedSpec {
  /** "": the secret has none. */
  readonly name: string;
  readonly spec: SecretSpec;
}

export const SPEC_NOUNS = { certificate: "certificate", validation: "validation context" } as const;

/** More problems would not fit a message for people. */
const SHOWN_PROBLEMS = 5;

const SECRET = {
  local: secretSchema({ allowFiles: true }),
  sent: secretSchema({ allowFiles: false }),
};

/** Throws `credentials_invalid` that says what is wrong; never shows a value. */
export function parseSecret(value: unknown, { allowFiles }: SecretOptions): NamedSpec {
  const result = parsed(allowFiles ? SECRET.local : SECRET.sent, value, []);
  if (result.kind === "valid") return result.output;
  throw new ProxyError(
    "credentials_invalid",
    `Cannot use the secret: ${formatProblems(result.problems, "the secret")}`,
  );
}

/** `tls_certificate.private_key is missing; name must be a text`. */
export function formatProblems(problems: readonly Problem[], whole: string): string {
  const shown = problems.slice(0, SHOWN_PROBLEMS)
    .map(({ path, message }) => `${formatPath(path.map(shortened)) || whole} ${message}`);
  const more = problems.length - shown.length;
  return shown.join("; ") + (more > 0 ? `; and ${more} more` : "");
}

/** A line of a misplaced key may be read as a field's name, but no field's name is that long. */
function shortened(part: string | number): string | number {
  return typeof part === "string" && part.length > 40 ? `${part.slice(0, 8)}...` : part;
}

export function secretSchema(options: SecretOptions): SchemaOf<NamedSpec> {
  const fields = message({
    name: v.optional(v.union([v.literal(""), text()], "must be a text"), ""),
    tlsCertificate: v.exactOptional(tlsCertificate(options)),
    validationContext: v.exactOptional(validationContext(options)),
  }, {
    oneOf: ["tlsCertificate", "validationContext"],
    refused: {
      sessionTicketKeys: "cannot be used: the keys of session tickets are the TLS library's own",
      genericSecret: "cannot be used: nothing here takes generic secrets",
    },
  });
  return checked(fields, ({ name, tlsCertificate, validationContext }): NamedSpec | undefined => {
    const spec = tlsCertificate ?? validationContext;
    return spec && { name, spec };
  });
}

export function tlsCertificate(options: SecretOptions): SchemaOf<CertificateSpec> {
  const source = v.exactOptional(dataSource(options));
  const fields = message({
    certificateChain: source,
    privateKey: source,
    password: source,
    pkcs12: source,
    ocspStaple: source,
    watchedDirectory: v.exactOptional(watchedDirectory(options)),
  }, {
    refused: {
      privateKeyProvider: "cannot be honoured: give the key as private_key",
      signedCertificateTimestamp: "cannot be honoured: no timestamps are sent",
    },
  });
  return checked(fields, ({ certificateChain: chain, privateKey: key, ...rest }, report) => {
    const names = {
      chain: "certificate_chain",
      key: "private_key",
      or: "pkcs12, with key and chain",
    };
    return pairSpec({ ...rest, ...defined({ chain, key }) }, names, report);
  });
}

/** Chain and key, or PKCS#12; `names` are those of the form. */
export function pairSpec(
  pair: Omit<CertificateSpec, "type">,
  names: { readonly chain: string; readonly key: string; readonly or: string },
  report: Report,
): CertificateSpec {
  const { chain, key, pkcs12 } = pair;
  if (pkcs12) {
    if (chain) report([names.chain], "cannot be beside pkcs12, which has one");
    if (key) report([names.key], "cannot be beside pkcs12, which has one");
  } else {
    if (!chain) report([names.chain], `is missing; or ${names.or}`);
    if (!key) report([names.key], "is missing");
  }
  return { type: "certificate", ...pair };
}
