/**
 * Takes lines out of the rings and writes them, in pieces that reach a pipe whole. A failure to write
 * costs the lines and is told when a later piece could be written.
 *
 * @module
 */

import type { LogRecord } from "../base/mod.ts";
import type { LogRing, LogRings } from "./log_rings.ts";

export interface LogDrainOptions {
  readonly rings: LogRings;
  readonly format: (record: LogRecord) => string;
  readonly now: () => number;
  /** Writes some of it and says how much, or throws; may wait for the reader. */
  readonly write: (bytes: Uint8Array) => number;
  /** Gives somebody's non-blocking pipe time to be read; false: no more of it. */
  readonly waitForReader: () => boolean;
}

/** A write of at most this many bytes reaches a pipe in one piece (PIPE_BUF). */
const PIECE_BYTES = 4_096;
const NEWLINE = 10;
/** A loss is said where it happened, after what waited; where that takes no end, this often. */
const TELL_MS = 1_000;

export class LogDrain {
  readonly #options: LogDrainOptions;
  readonly #piece = new Uint8Array(PIECE_BYTES);
  #told = 0;
  #noticedMs: number | undefined;
  #failure = "";

  constructor(options: LogDrainOptions) {
    this.#options = options;
  }

  /** Writes everything that waits, as long as that takes. */
  run(): void {
    const { rings } = this.#options;
    while (!rings.isEmpty) {
      for (const ring of rings.each) this.#writePiece(ring);
      this.#tellLoss();
    }
  }

  #writePiece(ring: LogRing): void {
    const found = this.#piece.subarray(0, ring.peek(this.#piece));
    if (found.length === 0) return;
    // Whole lines, unless one is longer than a piece.
    const piece = found.subarray(0, found.lastIndexOf(NEWLINE) + 1 || found.length);
    if (!this.#write(piece)) ring.lose(countLines(piece));
    ring.drop(piece.length);
  }

  #write(bytes: Uint8Array): boolean {
    const { write, waitForReader } = this.#options;
    for (let done = 0; done < bytes.length;) {
      try {
        done += write(bytes.subarray(done));
      } catch (error) {
        const code = (error as { readonly code?: unknown }).code;
        if (code === "EAGAIN" && waitForReader()) continue;
        this.#failure = String(code ?? error);
        return false;
      }
    }
    return true;
  }

  #tellLoss(): void {
    const { rings, format, now } = this.#options;
    const { lost } = rings;
    const timeMs = now();
    if (lost === this.#told) return;
    this.#noticedMs ??= timeMs;
    if (!rings.isEmpty && timeMs - this.#noticedMs < TELL_MS) return;
    const record: LogRecord = {
      timeMs,
      level: "warn",
      message: "log lines lost",
      fields: {
        lines: lost - this.#told,
        reason: this.#failure || "standard error was not read in time",
      },
    };
    if (!this.#write(new TextEncoder().encode(`${format(record)}\n`))) return;
    this.#told = lost;
    this.#noticedMs = undefined;
    this.#failure = "";
  }
}

function countLines(bytes: Uint8Array): number {
  return bytes.reduce((count, byte) => byte === NEWLINE ? count + 1 : count, 0);
}
