/**
 * Pauses listeners while the process is short of file descriptors. Accepting would fail, keep the
 * runtime busy with failing, and leave accepted clients without a descriptor for their upstream; paused,
 * new clients wait in the kernel until others have left. A listener with more new clients than can be
 * served rests for a moment, too: work for open connections goes first.
 *
 * @module
 */

import { readdirSync, readFileSync, statSync } from "node:fs";
import type { Clock, Timer } from "../base/mod.ts";
import type { Listener } from "./port.ts";

/** Callers of a listener: the local application (`own`), or anyone (`strangers`), paused first. */
export type CallerKind = "own" | "strangers";

/** The strain of a new connection: none, `refused`, or `crowded`: the next should wait. */
export type AcceptStrain = "none" | "refused" | "crowded";

export type PausedCallers = "nobody" | "strangers" | "all";

export interface AcceptGateOptions {
  readonly clock: Clock;
  /** Called when accepting stops and when it goes on, with the descriptors left at that time. */
  readonly onChange: (pausedFor: PausedCallers, headroom: number) => void;
  /** Called when a listener could not resume; it is tried again every two seconds. */
  readonly onLost?: (listener: Listener, error: unknown) => void;
  /** Pause below this many descriptors; default {@link RESERVE}, less where the limit is small. */
  readonly reserve?: number;
  /** Threads that each have a gate of their own in this process. */
  readonly workers?: number;
  readonly headroom?: () => number;
  /** Nothing is accepted before {@link AcceptGate.release}; default: false. */
  readonly held?: boolean;
}

/** Descriptors kept for dials of accepted connections, the agent, logs and certificates. */
export const RESERVE = 64;
/** Strangers leave that much more, for calls that the local application makes. */
const OWN_SHARE = 0.5;
/** Descriptors of one accepted connection: its own and its upstream's. */
const PER_CONNECTION = 2;
const PERIOD_MS = 2_000;
const PAUSED_PERIOD_MS = 100;
/** A listener with that many strains within {@link REST_MS} rests until its end. */
const STRAINS = 8;
const REST_MS = 5;
/** A handshake takes time; a refused connection is over. */
const STRAIN_OF = { refused: 1, crowded: 2 } as const;

interface Gated {
  readonly listener: Listener;
  readonly callers: CallerKind;
  isHeld: boolean;
  /** It did not resume: its address was taken while it was paused. */
  isLost: boolean;
  strains: number;
}

export class AcceptGate {
  readonly #options: AcceptGateOptions;
  readonly #headroom: () => number;
  readonly #reserve: number;
  readonly #listeners = new Map<Listener, Gated>();
  #timer: Timer | undefined;
  #rest: Timer | undefined;
  #pausedFor: PausedCallers = "nobody";
  #held: boolean;
  /** Connections that may come before the next check. */
  #left = 0;

  constructor(options: AcceptGateOptions) {
    this.#options = options;
    this.#held = options.held ?? false;
    this.#headroom = options.headroom ?? fdHeadroom;
    this.#reserve = options.reserve ?? Math.min(RESERVE, Math.floor(this.#headroom() / 4));
    this.check();
  }

  get pausedFor(): PausedCallers {
    return this.#pausedFor;
  }

  /** From now on `listener` is paused and resumed with the others. */
  add(listener: Listener, callers: CallerKind): void {
    const gated = { listener, callers, isHeld: false, isLost: false, strains: 0 };
    this.#listeners.set(listener, gated);
    this.#settle(gated);
  }

  /** Accepts from now on. */
  release(): void {
    if (!this.#held) return;
    this.#held = false;
    for (const gated of this.#listeners.values()) this.#settle(gated);
  }

  /** Call this before the listener is closed, so that it is not resumed afterwards. */
  remove(listener: Listener): void {
    this.#listeners.delete(listener);
  }

  /** Called for each accepted connection. False: it came after a pause began; reset it. */
  opened(callers: CallerKind): boolean {
    if (--this.#left < 0) this.check();
    return !this.#isPaused(callers);
  }

  /**
   * Call this for each connection that strains: after a few the listener rests for a moment, so that
   * closes are noticed and open connections are served. Its clients wait in the kernel; a listener that
   * would refuse them instead goes on.
   */
  strained(listener: Listener, strain: Exclude<AcceptStrain, "none">): void {
    const gated = this.#listeners.get(listener);
    if (!gated) return;
    const before = gated.strains;
    gated.strains += STRAIN_OF[strain];
    this.#rest ??= this.#options.clock.after(REST_MS, () => this.#rested());
    if (before < STRAINS && gated.strains >= STRAINS) this.#settle(gated);
  }

  /** Counts descriptors now; also every two seconds, because other code opens files, too. */
  check(): void {
    const headroom = this.#headroom();
    const pausedFor = this.#isShort("own", headroom)
      ? "all"
      : this.#isShort("strangers", headroom)
      ? "strangers"
      : "nobody";
    const share = PER_CONNECTION * (this.#options.workers ?? 1);
    const mark = pausedFor === "nobody" ? this.#markOf("strangers") : this.#reserve;
    this.#left = pausedFor === "all" ? 0 : Math.floor((headroom - mark) / share);
    if (pausedFor !== this.#pausedFor) this.#change(pausedFor, headroom);
    else for (const gated of this.#listeners.values()) if (gated.isLost) this.#settle(gated);
    this.#timer?.cancel();
    const periodMs = this.#pausedFor === "nobody" ? PERIOD_MS : PAUSED_PERIOD_MS;
    this.#timer = this.#options.clock.after(periodMs, () => this.check());
  }

  /** Forgets all listeners and leaves them as they are. */
  close(): void {
    this.#timer?.cancel();
    this.#rest?.cancel();
    this.#left = Infinity;
    this.#listeners.clear();
  }

  #markOf(callers: CallerKind): number {
    return callers === "own" ? this.#reserve : Math.floor(this.#reserve * (1 + OWN_SHARE));
  }

  #isShort(callers: CallerKind, headroom: number): boolean {
    const mark = this.#markOf(callers);
    // Resuming at the same mark would pause again with the next client.
    return headroom < (this.#isPaused(callers) ? mark + this.#reserve : mark);
  }

  #isPaused(callers: CallerKind): boolean {
    return this.#pausedFor === "all" || this.#pausedFor === callers;
  }

  #change(pausedFor: PausedCallers, headroom: number): void {
    this.#pausedFor = pausedFor;
    for (const gated of this.#listeners.values()) this.#settle(gated);
    this.#options.onChange(pausedFor, headroom);
  }

  #rested(): void {
    this.#rest = undefined;
    for (const gated of this.#listeners.values()) {
      if (gated.strains === 0) continue;
      gated.strains = 0;
      this.#settle(gated);
    }
  }

  /** Pauses or resumes the listener, as it should be now. */
  #settle(gated: Gated): void {
    const { listener, callers } = gated;
    const rests = gated.strains >= STRAINS && listener.keepsWaiting;
    if (this.#held || this.#isPaused(callers) || rests) {
      if (!gated.isHeld) listener.pause();
      gated.isHeld = true;
      return;
    }
    if (!gated.isHeld) return;
    try {
      listener.resume();
      gated.isHeld = gated.isLost = false;
    } catch (error) {
      gated.isLost = true;
      this.#options.onLost?.(listener, error);
    }
  }
}

const OPEN = "/proc/self/fd";

/**
 * Soft limit of open files less those open now; `Infinity`: the system does not say. 0: no descriptor is
 * left to read it with. A few microseconds; before Linux 6.2 as long as listing them all.
 */
export function fdHeadroom(): number {
  try {
    return (readLimit() ?? Infinity) - openCount();
  } catch (error) {
    const { code } = error as { readonly code?: string };
    return code === "EMFILE" || code === "ENFILE" ? 0 : Infinity;
  }
}

/** The soft limit of open files; undefined: the system does not say. */
export function descriptorLimit(): number | undefined {
  try {
    return readLimit();
  } catch {
    return undefined; // no /proc here: other systems raise the limit themselves
  }
}

/** The soft limit in the text of `/proc/self/limits`; undefined: none. */
export function parseLimits(text: string): number | undefined {
  const soft = /^Max open files\s+(\d+|unlimited)\s/m.exec(text)?.[1];
  return soft === undefined || soft === "unlimited" ? undefined : Number(soft);
}

function readLimit(): number | undefined {
  // The limit can be changed from outside at any time, so it is not cached.
  return parseLimits(readFileSync("/proc/self/limits", "utf8"));
}

function openCount(): number {
  // The size of the directory is the number of open files; 0 before Linux 6.2.
  return statSync(OPEN).size || readdirSync(OPEN).length;
}
