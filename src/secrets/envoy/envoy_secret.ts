/**
 * Envoy's `Secret`, in proto3's JSON: a certificate or whom to accept.
 *
 * @module
 */

import * as v from "valibot";
import { ProxyError } from "../../base/mod.ts";
import type { SecretSpec } from "../spec.ts";
import {
  checked,
  formatPath,
  type Problem,
  problemOf,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { tlsCertificate } from "./tls_certificate.ts";
import { message } from "./message.ts";
import { validationContext } from "./validation_context.ts";

export interface NamedSpec {
  /** "": it says none. */
  readonly name: string;
  readonly spec: SecretSpec;
}

export interface SecretOptions {
  /** May it name files and environment variables of this machine? Not when a server sends it. */
  readonly allowFiles: boolean;
}

/** More would be no message for people. */
const SHOWN_PROBLEMS = 5;

const SECRET = {
  local: secretSchema({ allowFiles: true }),
  sent: secretSchema({ allowFiles: false }),
};

/** Fails with `credentials_invalid`, naming every field that cannot be used; never shows a value. */
export function parseSecret(value: unknown, where: SecretOptions): NamedSpec {
  const schema = where.allowFiles ? SECRET.local : SECRET.sent;
  const result = v.safeParse(schema, value, { abortPipeEarly: true });
  if (result.success) return result.output;
  throw new ProxyError(
    "credentials_invalid",
    `Cannot use the secret: ${formatProblems(result.issues.map(problemOf), "the secret")}`,
  );
}

/** `tls_certificate.private_key is missing; name must be a text`. */
export function formatProblems(problems: readonly Problem[], whole: string): string {
  const shown = problems.slice(0, SHOWN_PROBLEMS)
    .map(({ path, message }) => `${formatPath(path.map(cut)) || whole} ${message}`);
  const more = problems.length - shown.length;
  return shown.join("; ") + (more > 0 ? `; and ${more} more` : "");
}

/** A line of a key in the wrong place may be taken for a field's name; no field's is that long. */
function cut(part: string | number): string | number {
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
