/** Checks exports of plugins, and configurations by the plugins' schemas (Standard Schema 1). @module */

import type { PluginDefinition, Schema } from "./api.ts";

/** A plugin with any configuration, which its schema describes. */
// deno-lint-ignore no-explicit-any
export type AnyPlugin = PluginDefinition<any, any>;

export const PHASES = ["guard", "route", "filter", "retry", "attempt"] as const;
const NAME = /^[a-z][a-z0-9_]{0,63}$/;
const KNOWN = ["name", "api", "phase", "config", "routeConfig", "create"];

/** Why an export is no plugin, in words that follow "its default export"; `undefined`: it is one. */
export function whyNoPlugin(exported: unknown): string | undefined {
  if (typeof exported !== "object" || exported === null) return "is no object";
  const { name, api, phase, config, routeConfig, create } = exported as Record<string, unknown>;
  if (api !== 1) return `is for version ${JSON.stringify(api)} of the contract; this is 1`;
  if (typeof name !== "string" || whyNoPluginName(name)) return "has no name in snake_case";
  if (!PHASES.some((known) => known === phase)) {
    return `has the phase ${JSON.stringify(phase)}; there are ${PHASES.join(", ")}`;
  }
  if (!isSchema(config)) return "has no schema at config";
  if (routeConfig !== undefined && !isSchema(routeConfig)) return "has no schema at routeConfig";
  if (typeof create !== "function") return "has no create()";
  const unknown = Object.keys(exported).find((key) => !KNOWN.includes(key));
  if (unknown !== undefined) return `has ${unknown}, which is not known here`;
  return undefined;
}

/** `undefined`: the name is valid. */
export function whyNoPluginName(name: string): string | undefined {
  return NAME.test(name) ? undefined : "want snake_case: a to z, 0 to 9 and _, a letter first";
}

function isSchema(value: unknown): boolean {
  const standard =
    (value as { "~standard"?: { version?: unknown; validate?: unknown } } | undefined)
      ?.["~standard"];
  return standard?.version === 1 && typeof standard.validate === "function";
}

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
