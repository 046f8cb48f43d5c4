/**
 * Finds the virtual host of a request. Names are matched as in Envoy: the whole name, then the longest
 * `*.suffix`, then the longest `prefix.*`, then `*`; letter case is ignored.
 *
 * @module
 */

export class HostTable<T> {
  readonly #exact = new Map<string, T>();
  #suffixes: ByLength<T> = [];
  #prefixes: ByLength<T> = [];
  readonly #portSuffix: string;
  #any: T | undefined;

  /** A name without a port also matches itself with the listener's `port`. The first of equals wins. */
  constructor(hosts: Iterable<readonly [name: string, value: T]>, port: number) {
    this.#portSuffix = `:${port}`;
    const suffixes: [text: string, value: T][] = [];
    const prefixes: [text: string, value: T][] = [];
    for (const [written, value] of hosts) {
      const name = written.toLowerCase();
      if (name === "*") this.#any ??= value;
      else if (name.startsWith("*")) suffixes.push([name.slice(1), value]);
      else if (name.endsWith("*")) prefixes.push([name.slice(0, -1), value]);
      else if (!this.#exact.has(name)) this.#exact.set(name, value);
    }
    this.#suffixes = byLength(suffixes);
    this.#prefixes = byLength(prefixes);
  }

  /** Finds by `Host` or `:authority`; undefined: no name matches. */
  find(authority: string): T | undefined {
    const whole = authority.toLowerCase();
    const named = whole.endsWith(this.#portSuffix)
      ? whole.slice(0, -this.#portSuffix.length)
      : whole;
    return this.#exact.get(whole) ?? this.#exact.get(named) ??
      longest(this.#suffixes, named, true) ??
      longest(this.#prefixes, named, false) ??
      this.#any;
  }
}

/** Texts grouped by length, the longest first: a gateway may serve thousands of names, of few lengths. */
type ByLength<T> = readonly { readonly length: number; readonly texts: ReadonlyMap<string, T> }[];

function byLength<T>(entries: readonly (readonly [text: string, value: T])[]): ByLength<T> {
  const lengths = new Map<number, Map<string, T>>();
  for (const [text, value] of entries) {
    const texts = lengths.get(text.length) ?? new Map<string, T>();
    if (!texts.has(text)) texts.set(text, value);
    lengths.set(text.length, texts);
  }
  return [...lengths].map(([length, texts]) => ({ length, texts }))
    .sort((a, b) => b.length - a.length);
}

/** A wildcard matches at least one character: a name no longer than the text does not match. */
function longest<T>(
  entries: ByLength<T>,
  named: string,
  isSuffix: boolean,
): T | undefined {
  for (const { length, texts } of entries) {
    if (named.length <= length) continue;
    const value = texts.get(isSuffix ? named.slice(-length) : named.slice(0, length));
    if (value !== undefined) return value;
  }
  return undefined;
}
