/**
 * Which servers are known, and which of them is asked next: any one by chance, but none soon after it has
 * failed. Pure.
 *
 * @module
 */

import type { Random } from "../../base/mod.ts";

/** The first pause after a failure; each further one in a row is half as long again. */
const PAUSE_MS = 500;
/** A server that is back is found within this time, and a thousand proxies dial it 130 times a second. */
const PAUSE_LIMIT_MS = 10_000;

interface Known {
  failures: number;
  /** Not asked before that. */
  untilMs: number;
}

export class ServerList {
  readonly #random: Random;
  #known = new Map<string, Known>();

  constructor(random: Random) {
    this.#random = random;
  }

  get hosts(): string[] {
    return [...this.#known.keys()];
  }

  /** These and no others; what is known of those that stay, stays. */
  replace(hosts: readonly string[]): void {
    const before = this.#known;
    this.#known = new Map();
    for (const host of hosts) this.#known.set(host, before.get(host) ?? fresh());
  }

  add(hosts: readonly string[]): void {
    for (const host of hosts) if (!this.#known.has(host)) this.#known.set(host, fresh());
  }

  /** By chance; `undefined`: all have failed a moment ago. */
  pick(nowMs: number): string | undefined {
    const ready = [...this.#known].filter(([, { untilMs }]) => untilMs <= nowMs);
    return ready[Math.floor(this.#random() * ready.length)]?.[0];
  }

  failed(host: string, nowMs: number): void {
    const known = this.#known.get(host);
    if (!known) return;
    const pauseMs = Math.min(PAUSE_LIMIT_MS, PAUSE_MS * 1.5 ** Math.min(known.failures, 20));
    known.failures++;
    known.untilMs = nowMs + pauseMs * (1 + this.#random()) / 2;
  }

  /** It has served for a while. */
  proved(host: string): void {
    const known = this.#known.get(host);
    if (known) known.failures = 0;
  }

  /** Until {@link pick} has one; Infinity where none is known. */
  waitMs(nowMs: number): number {
    let untilMs = Infinity;
    for (const known of this.#known.values()) untilMs = Math.min(untilMs, known.untilMs);
    return Math.max(0, untilMs - nowMs);
  }
}

function fresh(): Known {
  return { failures: 0, untilMs: 0 };
}
