/** Secrets that plugins read, and their removal from texts that people see. @module */

import type { Secret } from "./api.ts";

export const HIDDEN = "(hidden)";
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

/** Values in use, with the number of their users. A worker has one set, as errors have no plugin. */
const inUse = new Map<string, number>();

/** Shown as {@link HIDDEN}. */
export class HiddenSecret implements Secret {
  readonly #valueOf: () => string;

  constructor(valueOf: () => string) {
    this.#valueOf = valueOf;
  }

  read(): string {
    return this.#valueOf();
  }

  toString(): string {
    return HIDDEN;
  }

  toJSON(): string {
    return HIDDEN;
  }

  [INSPECT](): string {
    return HIDDEN;
  }
}

/** From now on the value is removed from texts, until the returned function is called. */
export function hide(value: string): () => void {
  inUse.set(value, (inUse.get(value) ?? 0) + 1);
  return () => {
    const users = (inUse.get(value) ?? 1) - 1;
    if (users > 0) inUse.set(value, users);
    else inUse.delete(value);
  };
}

export function withoutSecrets(text: string): string {
  if (inUse.size === 0) return text;
  let shown = text;
  for (const value of inUse.keys()) shown = shown.replaceAll(value, HIDDEN);
  return shown;
}
