/**
 * Opaque configuration (`Proxy.Config`, `Upstreams[].Config`), read weakly as Consul does: users write
 * `max_connections`, central configuration arrives as `MaxConnections`; numbers arrive as text, durations
 * as nanoseconds or Go text. A value that cannot be read is mended and named, never an error: any text may
 * stand in the map.
 *
 * @module
 */

import { type KeyPlace } from "./config_keys.ts";
import { namedKeys, plain } from "./named_keys.ts";
import { durationMs } from "./schema.ts";

export class ProxyConfig {
  readonly #values = new Map<string, { readonly key: string; readonly value: unknown }>();
  readonly #where: string;
  readonly #warnings: string[];

  /** `where` starts each warning: `Upstream "db"`. */
  constructor(raw: unknown, options: { readonly where: string; readonly warnings: string[] }) {
    this.#where = options.where;
    this.#warnings = options.warnings;
    if (raw === null || raw === undefined) return;
    if (typeof raw !== "object" || Array.isArray(raw)) {
      this.#warn("is no map of keys and is ignored");
      return;
    }
    for (const [key, value] of Object.entries(raw)) {
      const name = plain(key);
      // Where both spellings are present, the documented one (snake_case) wins.
      if (!this.#values.has(name) || key.includes("_")) this.#values.set(name, { key, value });
    }
  }

  text(name: string): string {
    const value = this.raw(name);
    if (value === undefined || typeof value === "string") return value ?? "";
    if (typeof value === "number") return String(value);
    this.#warn(`has a ${name} that is no text; it is ignored`);
    return "";
  }

  /** A list of texts; a text alone is a list of one. */
  texts(name: string): readonly string[] {
    const value = this.raw(name);
    if (value === undefined || value === "") return [];
    const list: readonly unknown[] = Array.isArray(value) ? value : [value];
    const texts = list.filter((each) => typeof each === "string");
    if (texts.length < list.length) this.#warn(`has ${name} with what is no text; that is ignored`);
    return texts;
  }

  /** A whole number of at least `minimum`; anything else counts as absent. */
  integer(name: string, minimum: number): number | undefined {
    const value = this.raw(name);
    if (value === undefined) return undefined;
    const isText = typeof value === "string" && /^\s*[+-]?\d+\s*$/.test(value);
    const number = isText ? Number(value) : value;
    const isWhole = typeof number === "number" && Number.isSafeInteger(number);
    if (isWhole && number >= minimum) return number;
    const fact = `has ${name} ${show(value)}, which is no whole number from ${minimum}`;
    this.#warn(`${fact}; it is ignored`);
    return undefined;
  }

  /** True or false, also as a text or number; anything else counts as absent. */
  flag(name: string): boolean | undefined {
    const value = this.raw(name);
    if (value === undefined) return undefined;
    const written = String(value).toLowerCase();
    if (written === "true" || written === "1") return true;
    if (written === "false" || written === "0" || written === "") return false;
    this.#warn(`has ${name} ${show(value)}, which is neither true nor false; it is ignored`);
    return undefined;
  }

  /** One of the words in any case, or the word for true or false; anything else counts as absent. */
  choice<Word extends string>(
    name: string,
    words: readonly Word[],
    flags: Readonly<Record<"true" | "false", Word>>,
  ): Word | undefined {
    const value = this.raw(name);
    if (value === undefined || value === "") return undefined;
    const written = String(value).toLowerCase();
    const word = words.find((each) => each === written);
    if (word !== undefined) return word;
    if (written === "true" || written === "1") return flags.true;
    if (written === "false" || written === "0") return flags.false;
    this.#warn(`has ${name} ${show(value)}, which is none of ${words.join(", ")}; it is ignored`);
    return undefined;
  }

  /** Milliseconds of a Go text or of nanoseconds; 0 and below count as absent. */
  durationMs(name: string): number | undefined {
    const value = this.raw(name);
    if (value === undefined) return undefined;
    const written = typeof value === "string" && /^\s*\d+\s*$/.test(value) ? Number(value) : value;
    const isWritten = typeof written === "string" || typeof written === "number";
    const ms = isWritten ? durationMs(written) : undefined;
    if (ms === undefined) {
      this.#warn(`has ${name} ${show(value)}, which is no duration; it is ignored`);
    }
    return ms !== undefined && ms > 0 ? ms : undefined;
  }

  /** A map inside this one; empty where there is none. */
  section(name: string): ProxyConfig {
    const value = this.raw(name);
    return new ProxyConfig(value, { where: `${this.#where}: ${name}`, warnings: this.#warnings });
  }

  /** Warns about the keys that are not followed, and about unknown ones. */
  nameUnfollowed(place: KeyPlace): void {
    const values = [...this.#values.values()];
    const written = Object.fromEntries(values.map(({ key, value }) => [key, value]));
    this.#warnings.push(...namedKeys(written, { place, where: this.#where, zeroCounts: true }));
  }

  /** The value as written; undefined where the key is absent. */
  raw(name: string): unknown {
    return this.#values.get(plain(name))?.value ?? undefined;
  }

  #warn(fact: string): void {
    this.#warnings.push(`${this.#where} ${fact}`);
  }
}

function show(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 60);
}
