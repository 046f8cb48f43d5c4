/** A map with a limit of entries and of their age, which plugins borrow from the host. @module */

import type { Clock } from "../base/mod.ts";
import type { BoundedMap } from "./api.ts";

const MAX_ENTRIES = 100_000;

interface Entry<V> {
  readonly value: V;
  readonly endMs: number;
}

export function createBoundedMap<V>(
  clock: Pick<Clock, "monotonic">,
  { limit, ttlMs }: { readonly limit: number; readonly ttlMs: number },
): BoundedMap<V> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_ENTRIES) {
    throw new RangeError(`map: want a limit from 1 to ${MAX_ENTRIES}`);
  }
  if (!(ttlMs > 0)) throw new RangeError("map: want a ttlMs above 0");
  /** The entry that was used longest ago is the first. */
  const entries = new Map<string, Entry<V>>();
  return {
    get(key) {
      const entry = entries.get(key);
      if (!entry) return undefined;
      entries.delete(key);
      if (clock.monotonic() >= entry.endMs) return undefined;
      entries.set(key, entry);
      return entry.value;
    },
    set(key, value, ownTtlMs = ttlMs) {
      entries.delete(key);
      if (entries.size >= limit) {
        const [oldest = ""] = entries.keys();
        entries.delete(oldest);
      }
      entries.set(key, { value, endMs: clock.monotonic() + ownTtlMs });
    },
    delete: (key) => void entries.delete(key),
    clear: () => entries.clear(),
    get size() {
      return entries.size;
    },
  };
}
