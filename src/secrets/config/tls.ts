/**
 * The credentials of one listener or upstream, in our own form or as pasted from an Envoy
 * configuration. Everything wrong is reported at once.
 *
 * @module
 */

import { envoyForm, isEnvoyForm } from "./envoy_form.ts";
import { nativeForm } from "./native.ts";
import { type ParsedTls, type TlsConfigContext, type TlsReading } from "./tls_context.ts";
import { parsed } from "../../base/schema.ts";

/** Never throws; problems have the context's path before their own. */
export function parseTlsConfig(value: unknown, context: TlsConfigContext): ParsedTls {
  const warnings: string[] = [];
  const reading: TlsReading = { ...context, warn: (message) => void warnings.push(message) };
  const form = isEnvoyForm(value) ? envoyForm(reading) : nativeForm(reading);
  const result = parsed(form, value, context.path);
  return result.kind === "valid" ? { kind: "valid", ...result.output, warnings } : result;
}
