/**
 * Ids of services as messages show them.
 *
 * @module
 */

/** An agent, or a node, may have thousands of services. */
const SHOWN_IDS = 10;

/** `; WHAT: a, b and 3 more`, or nothing where there are none. */
export function listed(what: string, ids: readonly string[]): string {
  const known = [...new Set(ids)].filter((id) => id !== "").sort().map(shown);
  if (known.length === 0) return "";
  const rest = known.length - SHOWN_IDS;
  return `; ${what}: ${known.slice(0, SHOWN_IDS).join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`;
}

/** Ids are whatever their registrant wrote: none may begin a line of its own. */
export function shown(id: string): string {
  return /^[\x21-\x7e]+$/.test(id) ? id : JSON.stringify(id);
}
