/**
 * Takes the access log's lines out of the rings and writes them where the snapshot says. Who serves never
 * waits for this: where nothing is taken, lines stay in the rings until those are full, and then are lost,
 * counted and told of. A file is opened anew when somebody moved it away and says so.
 *
 * @module
 */

import {
  type Clock,
  type Counter,
  type Log,
  messageOf,
  sleep,
  type Stats,
} from "../../base/mod.ts";
import type { AccessLogTarget } from "../../snapshot/mod.ts";
import { type OpenTarget, openTarget } from "./access_target.ts";
import type { LogRing, LogRings } from "./log_rings.ts";

export interface AccessWriterOptions {
  readonly rings: LogRings;
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  /** For tests: opens what is written to. */
  readonly openTarget?: typeof openTarget;
}

const NEWLINE = 10;
/** A reader that fell behind is looked after this often. */
const RETRY_MS = 50;
/** What could not be opened is tried again after so long. */
const REOPEN_MS = 1_000;
/** Losses are told this often. */
const TELL_MS = 10_000;
/** How long the last lines of a process may take. */
const LAST_LINES_MS = 1_000;
const WASTE_BYTES = 4_096;

export class AccessWriter {
  readonly #options: AccessWriterOptions;
  readonly #open: typeof openTarget;
  readonly #lost: Counter;
  /** `undefined`: not known yet, and what is in the rings is wanted; `null`: nobody writes any. */
  #to: AccessLogTarget | null | undefined;
  #target: OpenTarget | undefined;
  /** The target is not, or not any more, the one that is wanted. */
  #stale = false;
  #openAgainMs = -Infinity;
  #running: Promise<void> | undefined;
  #again = false;
  #buffer = new Uint8Array();
  /** The last piece ended in the middle of a line. */
  #torn = false;
  #failure = "";
  #told = 0;
  #toldMs = -Infinity;

  constructor(options: AccessWriterOptions) {
    this.#options = options;
    this.#open = options.openTarget ?? openTarget;
    this.#lost = options.stats.counter(
      "access_log_lines_dropped_total",
      "Access log lines that were lost because their target could not be written in time",
    );
  }

  /** Where the lines go from now on; `null`: nobody writes any. */
  set(to: AccessLogTarget | null): void {
    const before = this.#to;
    this.#to = to;
    const isSame = before?.kind === to?.kind &&
      (before?.kind !== "file" || to?.kind === "file" && before.path === to.path);
    if (isSame) return;
    // What was wanted until now is still written.
    if (to === null) this.drain();
    else this.reopen();
  }

  /** Somebody moved the file away. */
  reopen(): void {
    this.#stale = true;
    this.#openAgainMs = -Infinity;
    this.drain();
  }

  /** Writes what is in the rings. Never waits. */
  drain(): void {
    this.#options.rings.answer();
    this.#again = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
  }

  /** The last lines, for as long as they may take. */
  async close(): Promise<void> {
    this.drain();
    await Promise.race([this.#running, sleep(this.#options.clock, LAST_LINES_MS)]);
    await this.#target?.close();
    this.#target = undefined;
    this.#to = null;
  }

  async #run(): Promise<void> {
    const { rings } = this.#options;
    while (this.#again) {
      this.#again = false;
      for (const ring of rings.each) await this.#empty(ring);
      this.#tell();
    }
    // Nobody wants any more, and everything that was wanted is written.
    if (this.#to === null) await this.#change();
  }

  async #empty(ring: LogRing): Promise<void> {
    while (!ring.isEmpty) {
      const target = await this.#wanted();
      if (!target) {
        // Nobody wants what came late; else it may still be opened while there is room.
        if (this.#to === null) forget(ring);
        return;
      }
      if (this.#buffer.length !== target.pieceBytes) {
        this.#buffer = new Uint8Array(target.pieceBytes);
      }
      const found = this.#buffer.subarray(0, ring.peek(this.#buffer));
      // Whole lines, unless one is longer than a piece.
      const piece = found.subarray(0, found.lastIndexOf(NEWLINE) + 1 || found.length);
      if (!await this.#write(target, piece)) ring.lose(countLines(piece));
      ring.drop(piece.length);
    }
  }

  /** Open and as wanted; `undefined`: there is none now. */
  async #wanted(): Promise<OpenTarget | undefined> {
    if (this.#stale) await this.#change();
    const { clock, log } = this.#options;
    const to = this.#to;
    if (this.#target || !to || clock.monotonic() < this.#openAgainMs) return this.#target;
    try {
      this.#target = await this.#open(to);
      this.#torn = false;
    } catch (error) {
      this.#failure = messageOf(error);
      this.#openAgainMs = clock.monotonic() + REOPEN_MS;
      clock.after(REOPEN_MS, () => this.drain());
      log.error("access log cannot be opened; it is tried again", { error: this.#failure });
    }
    return this.#target;
  }

  async #change(): Promise<void> {
    this.#stale = false;
    const before = this.#target;
    this.#target = undefined;
    // Of a file that is given up; what was written to it is in it, or nobody can help it.
    await before?.close().catch(() => {});
  }

  /** False: it could not be written. */
  async #write(target: OpenTarget, piece: Uint8Array): Promise<boolean> {
    let done = 0;
    try {
      if (this.#torn) {
        await target.write(Uint8Array.of(NEWLINE));
        this.#torn = false;
      }
      while (done < piece.length) done += await this.#push(target, piece.subarray(done));
      this.#failure = "";
      return true;
    } catch (error) {
      this.#torn ||= done > 0 && piece[done - 1] !== NEWLINE;
      this.#failure = String((error as { readonly code?: unknown }).code ?? messageOf(error));
      return false;
    }
  }

  /** Waits for a reader that fell behind, unless it is not wanted any more. */
  async #push(target: OpenTarget, bytes: Uint8Array): Promise<number> {
    for (;;) {
      try {
        return await target.write(bytes);
      } catch (error) {
        if ((error as { readonly code?: unknown }).code !== "EAGAIN" || this.#stale) throw error;
      }
      this.#tell();
      await sleep(this.#options.clock, RETRY_MS);
    }
  }

  #tell(): void {
    const { rings, clock, log } = this.#options;
    const { lost } = rings;
    this.#lost.add(lost - this.#lost.value);
    const nowMs = clock.monotonic();
    if (lost === this.#told || nowMs - this.#toldMs < TELL_MS) return;
    log.warn("access log lines lost", {
      lines: lost - this.#told,
      reason: this.#failure || "it was not written in time",
    });
    this.#told = lost;
    this.#toldMs = nowMs;
  }
}

function forget(ring: LogRing): void {
  const waste = new Uint8Array(WASTE_BYTES);
  for (let length = ring.peek(waste); length > 0; length = ring.peek(waste)) ring.drop(length);
}

function countLines(bytes: Uint8Array): number {
  return bytes.reduce((count, byte) => byte === NEWLINE ? count + 1 : count, 0);
}
