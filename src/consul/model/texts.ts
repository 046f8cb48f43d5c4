/** Texts of others as messages show them: one line, without secrets. @module */

import { ProxyError } from "../../base/mod.ts";

/** A shorter secret reveals nothing, and may be a word of the text. */
const SECRET_CHARS = 8;
/** An agent, or a node, may have thousands of services. */
const SHOWN_IDS = 10;

export function hideSecrets(text: string, secrets: readonly string[]): string {
  return secrets.filter(({ length }) => length >= SECRET_CHARS)
    .reduce((rest, secret) => rest.replaceAll(secret, "(not shown)"), text);
}

/** `; WHAT: a, b and 3 more`, or nothing where there are none. */
export function listed(what: string, ids: readonly string[]): string {
  const known = [...new Set(ids)].filter((id) => id !== "").sort().map(shown);
  if (known.length === 0) return "";
  const rest = known.length - SHOWN_IDS;
  return `; ${what}: ${known.slice(0, SHOWN_IDS).join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`;
}

/** An id may contain anything: none begins a line of its own. */
export function shown(id: string): string {
  return /^[\x21-\x7e]+$/.test(id) ? id : JSON.stringify(id);
}

/** The only one of `ids`; undefined: there is none. Fails with `usage` where there are several. */
export function onlyId(ids: readonly string[], what: string): string | undefined {
  if (ids.length <= 1) return ids[0];
  throw new ProxyError(
    "usage",
    `More than one ${what}: start one of ${ids.map(shown).join(", ")} with -proxy-id`,
  );
}
