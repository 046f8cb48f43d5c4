/**
 * Secrets that the configuration has itself, as Envoy's `static_resources.secrets`: credentials name
 * them without saying where they come from.
 *
 * @module
 */

import { type NamedSpec, secretSchema } from "../envoy/envoy_secret.ts";
import {
  checked,
  type ConfigPath,
  list,
  parsed,
  type Problem,
  type SchemaOf,
} from "../../base/schema.ts";

export type ParsedStaticSecrets =
  | { readonly kind: "valid"; readonly secrets: readonly NamedSpec[] }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

/** Never throws; everything wrong is reported at once, below `path`. */
export function parseStaticSecrets(
  value: unknown,
  context: { readonly path: ConfigPath },
): ParsedStaticSecrets {
  const result = parsed(SECRETS, value, context.path);
  return result.kind === "valid" ? { kind: "valid", secrets: result.output } : result;
}

const SECRETS: SchemaOf<readonly NamedSpec[]> = checked(
  list(secretSchema({ allowFiles: true }), 10_000),
  (secrets, report) => {
    const seen = new Set<string>();
    secrets.forEach(({ name, spec }, index) => {
      if (name === "") report([index, "name"], "is missing");
      const key = JSON.stringify([spec.type, name]);
      if (seen.has(key)) report([index, "name"], `"${name}" is used by an earlier secret`);
      seen.add(key);
    });
    return secrets;
  },
);
