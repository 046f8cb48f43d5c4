/**
 * `EnvoyExtensions` of a config entry: which of them Consul knows. What their arguments are is not looked
 * at here.
 *
 * @module
 */

import { isObject, type JsonObject } from "../http/decode.ts";
import { textAt } from "../http/fields.ts";

const KNOWN: ReadonlySet<string> = new Set([
  "builtin/aws/lambda",
  "builtin/ext-authz",
  "builtin/lua",
  "builtin/otel-access-logging",
  "builtin/property-override",
  "builtin/wasm",
]);

export function extensionFaults(entry: JsonObject): readonly string[] {
  const extensions = entry["EnvoyExtensions"];
  if (!Array.isArray(extensions)) return [];
  return extensions.flatMap((extension, index) => {
    const name = isObject(extension) ? textAt(extension, "Name") : "";
    if (KNOWN.has(name)) return [];
    const at = `invalid EnvoyExtensions[${index}]`;
    if (name === "") return [`${at}: Name is required`];
    return [`${at}[${name}]: name "${name}" is not a built-in extension`];
  });
}
