/**
 * Which of several virtual hosts a request is for. Names are matched as Envoy does: the whole name, then
 * the longest `*.suffix`, then the longest `prefix.*`, then `*`; letter case does not count.
 *
 * @module
 */

export class HostTable<T> {
  readonly #exact = new Map<string, T>();
  /** Without their `*`, the longest first. */
  readonly #suffixes: [text: string, value: T][] = [];
  readonly #prefixes: [text: string, value: T][] = [];
  readonly #portSuffix: string;
  #any: T | undefined;

  /** A name without a port also stands for itself with `port`, the listener's. The first of equal names counts. */
  constructor(hosts: Iterable<readonly [name: string, value: T]>, port: number) {
    this.#portSuffix = `:${port}`;
    for (const [name, value] of hosts) this.#add(name.toLowerCase(), value);
    const byLength = ([a]: [string, T], [b]: [string, T]) => b.length - a.length;
    this.#suffixes.sort(byLength);
    this.#prefixes.sort(byLength);
  }

  #add(name: string, value: T): void {
    if (name === "*") this.#any ??= value;
    else if (name.startsWith("*")) this.#suffixes.push([name.slice(1), value]);
    else if (name.endsWith("*")) this.#prefixes.push([name.slice(0, -1), value]);
    else if (!this.#exact.has(name)) this.#exact.set(name, value);
  }

  /** By `Host` or `:authority`; undefined: nobody is meant. */
  find(authority: string): T | undefined {
    const whole = authority.toLowerCase();
    const named = whole.endsWith(this.#portSuffix)
      ? whole.slice(0, -this.#portSuffix.length)
      : whole;
    return this.#exact.get(whole) ?? this.#exact.get(named) ??
      // A wildcard stands for something.
      longest(this.#suffixes, (text) => named.length > text.length && named.endsWith(text)) ??
      longest(this.#prefixes, (text) => named.length > text.length && named.startsWith(text)) ??
      this.#any;
  }
}

function longest<T>(
  entries: readonly (readonly [text: string, value: T])[],
  matches: (text: string) => boolean,
): T | undefined {
  for (const [text, value] of entries) if (matches(text)) return value;
  return undefined;
}
