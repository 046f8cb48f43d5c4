/**
 * `/events`: recent events of secrets, newest first.
 *
 * @module
 */

import type { SecretEvent } from "../../secrets/mod.ts";
import { dateText } from "./certificate_facts.ts";

export interface EventShown {
  readonly at: string;
  readonly kind: SecretEvent["kind"];
  readonly name: string;
  readonly source: string;
  readonly detail: string;
}

/** `events`: oldest first. */
export function eventsShown(events: readonly SecretEvent[], limit: number): readonly EventShown[] {
  const last = limit === 0 ? [] : events.slice(-limit);
  return last.reverse().map(({ atMs, kind, name, source, detail }) => ({
    at: dateText(atMs),
    kind,
    name,
    source,
    detail,
  }));
}

/** One line each: strangers choose some of the names. */
export function eventLine({ at, kind, name, source, detail }: EventShown): string {
  return [at, kind, name, `(${source})`, detail].join(" ").replace(/\s+/g, " ").trim();
}
