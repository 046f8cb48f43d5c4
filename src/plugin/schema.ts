/**
 * Validates the configuration of plugins with their schemas (Standard Schema 1).
 *
 * @module
 */

import type { Schema } from "./api.ts";

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The parsed configuration. Throws with up to ten faults, each with its path below `at`. */
export async function configOf(schema: Schema, value: unknown, at: string): Promise<unknown> {
  const result = await schema["~standard"].validate(value) as
    | { readonly value: unknown; readonly issues?: undefined }
    | { readonly issues: readonly Issue[] };
  if (!result.issues) return result.value;
  const faults = result.issues.slice(0, MAX_ISSUES).map(({ message, path }) => {
    const keys = (path ?? []).map((part) => typeof part === "object" ? part.key : part);
    return `${at}${keys.map(pathPart).join("")}: ${message}`;
  });
  throw new TypeError(faults.join("; "));
}

const MAX_ISSUES = 10;

function pathPart(key: PropertyKey): string {
  if (typeof key === "number") return `[${key}]`;
  const text = String(key);
  return /^[A-Za-z_][\w-]*$/.test(text) ? `.${text}` : `[${JSON.stringify(text)}]`;
}
