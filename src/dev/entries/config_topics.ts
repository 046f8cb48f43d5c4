/** What a write of a config entry concerns, and a read of one watches. @module */

import type { JsonObject } from "../json.ts";

export type FindEntry = (kind: string, name: string) => JsonObject | undefined;

/** The topic of every write of a config entry. */
export const CONFIG = "config";

/** The topic of one kind of entries, or of one entry. Intentions are found in any letter case. */
export function configTopic(kind: string, name?: string): string {
  if (name === undefined) return `${CONFIG}:${kind}`;
  return `${CONFIG}:${kind}/${kind === "service-intentions" ? name.toLowerCase() : name}`;
}
