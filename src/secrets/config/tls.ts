/**
 * The credentials of one listener or upstream, in our own form or as pasted from an Envoy
 * configuration. Everything wrong is reported at once.
 *
 * @module
 */

import * as v from "valibot";
import { problemOf } from "../values.ts";
import type { ParsedTls, Reading, TlsConfigContext } from "./tls_context.ts";
import { envoyForm, isEnvoyForm } from "./envoy_form.ts";
import { nativeForm } from "./native.ts";

/** Never throws; problems have the context's path before their own. */
export function parseTlsConfig(value: unknown, context: TlsConfigContext): ParsedTls {
  const warnings: string[] = [];
  const reading: Reading = { ...context, warn: (message) => void warnings.push(message) };
  const schema = isEnvoyForm(value) ? envoyForm(reading) : nativeForm(reading);
  const result = v.safeParse(schema, value, { abortPipeEarly: true });
  if (result.success) return { kind: "valid", ...result.output, warnings };
  const problems = result.issues.map(problemOf)
    .map(({ path, message }) => ({ path: [...context.path, ...path], message }));
  return { kind: "invalid", problems };
}
