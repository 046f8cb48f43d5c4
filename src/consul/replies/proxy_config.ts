/**
 * Opaque configuration (`Proxy.Config`, `Upstreams[].Config`) read weakly, as Consul itself does: users
 * write `max_connections`, central configuration arrives as `MaxConnections`; numbers come as text;
 * durations as nanoseconds or Go text. What cannot be read is mended and named, never an error: the
 * map is free for anybody to write into.
 *
 * @module
 */

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
      const plain = plainKey(key);
      // Both spellings at once: the documented one (snake_case) counts.
      if (!this.#values.has(plain) || key.includes("_")) this.#values.set(plain, { key, value });
    }
  }

  text(name: string): string {
    const { value } = this.#get(name);
    if (value === undefined || typeof value === "string") return value ?? "";
    if (typeof value === "number") return String(value);
    this.#warn(`has a ${name} that is no text; it is ignored`);
    return "";
  }

  /** A whole number of at least `minimum`; anything else is as if absent. */
  integer(name: string, minimum: number): number | undefined {
    const { value } = this.#get(name);
    if (value === undefined) return undefined;
    const number = typeof value === "string" && /^\s*[+-]?\d+\s*$/.test(value)
      ? Number(value)
      : value;
    if (typeof number === "number" && Number.isSafeInteger(number) && number >= minimum) {
      return number;
    }
    this.#warn(
      `has ${name} ${show(value)}, which is no whole number from ${minimum}; it is ignored`,
    );
    return undefined;
  }

  /** Anything else than true and false, also as a text or number, is as if absent. */
  flag(name: string): boolean | undefined {
    const { value } = this.#get(name);
    if (value === undefined) return undefined;
    const written = String(value).toLowerCase();
    if (written === "true" || written === "1") return true;
    if (written === "false" || written === "0" || written === "") return false;
    this.#warn(`has ${name} ${show(value)}, which is neither true nor false; it is ignored`);
    return undefined;
  }

  /** Milliseconds of a Go text or of nanoseconds; 0 and below are as if absent. */
  durationMs(name: string): number | undefined {
    const { value } = this.#get(name);
    if (value === undefined) return undefined;
    const written = typeof value === "string" && /^\s*\d+\s*$/.test(value) ? Number(value) : value;
    const ms = typeof written === "string" || typeof written === "number"
      ? durationMs(written)
      : undefined;
    if (ms === undefined) {
      this.#warn(`has ${name} ${show(value)}, which is no duration; it is ignored`);
    }
    return ms !== undefined && ms > 0 ? ms : undefined;
  }

  /** A map inside this one; empty where there is none. */
  section(name: string): ProxyConfig {
    const { value } = this.#get(name);
    return new ProxyConfig(value, { where: `${this.#where}: ${name}`, warnings: this.#warnings });
  }

  /** As it was written; undefined where there is none. */
  raw(name: string): unknown {
    return this.#get(name).value;
  }

  /** Names the keys that hold configuration written for Envoy alone; `taken` is honoured. */
  warnOfEnvoyKeys(taken?: string): void {
    for (const { key, value } of this.#values.values()) {
      if (key === taken) continue;
      if (/^envoy_.*_json(_tpl)?$/.test(key) && value !== "" && value !== null) {
        this.#warn(
          `has ${key}, which is ignored: raw Envoy configuration is not supported, and what it ` +
            `adds has to come from a Postern plugin`,
        );
      }
    }
  }

  /** Names keys that mean something to Envoy and nothing here; `because` follows "which is ignored: ". */
  warnOf(name: string, because: string): void {
    const { value } = this.#get(name);
    if (value === undefined || value === "") return;
    this.#warn(`has ${name} ${show(value)}, which is ignored: ${because}`);
  }

  #get(name: string): { readonly value: unknown } {
    const value = this.#values.get(plainKey(name))?.value;
    return { value: value === null ? undefined : value };
  }

  #warn(fact: string): void {
    this.#warnings.push(`${this.#where} ${fact}`);
  }
}

/** `max_connections`, `MaxConnections` and `maxConnections` are the same key. */
function plainKey(key: string): string {
  return key.replaceAll("_", "").toLowerCase();
}

function show(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 60);
}
