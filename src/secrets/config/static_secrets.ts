/**
 * Secrets that the configuration has itself, as Envoy's `static_resources.secrets`: credentials name
 * them without saying where they come from.
 *
 * @module
 */

import * as v from "valibot";
import { type NamedSpec, secretSchema } from "../envoy/envoy_secret.ts";
import { follow, list, type Reader, reader } from "../envoy/message.ts";
import { type Path, type Problem, problemOf } from "../values.ts";

export type ParsedStaticSecrets =
  | { readonly kind: "valid"; readonly secrets: readonly NamedSpec[] }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

/** Never throws; everything wrong is reported at once, below `path`. */
export function parseStaticSecrets(
  value: unknown,
  context: { readonly path: Path },
): ParsedStaticSecrets {
  const result = v.safeParse(SECRETS, value, { abortPipeEarly: true });
  if (result.success) return { kind: "valid", secrets: result.output };
  const problems = result.issues.map(problemOf)
    .map(({ path, message }) => ({ path: [...context.path, ...path], message }));
  return { kind: "invalid", problems };
}

const LIST: Reader<NamedSpec[]> = list(secretSchema({ allowFiles: true }), 10_000);

const SECRETS: Reader<readonly NamedSpec[]> = reader((value, report) => {
  const secrets = follow(LIST, value, { report });
  const seen = new Set<string>();
  secrets?.forEach(({ name, spec }, index) => {
    if (name === "") report([index, "name"], "is missing");
    const key = JSON.stringify([spec.type, name]);
    if (seen.has(key)) report([index, "name"], `"${name}" is used by an earlier secret`);
    seen.add(key);
  });
  return secrets;
});
