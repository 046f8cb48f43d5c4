/**
 * Takes lines out of the rings and writes them, in pieces that reach a pipe whole. A failure to write
 * costs the lines and is told when a later piece could be written.
 *
 * @module
 */

import type { LogRecord } from "../../base/mod.ts";
import { PIPE_BYTES, type WriteNow } from "../../net/mod.ts";
import type { LogRing, LogRings } from "./log_rings.ts";

export interface LogDrainOptions {
  readonly rings: LogRings;
  readonly format: (record: LogRecord) => string;
  readonly now: () => number;
  readonly write: WriteNow;
}

const NEWLINE = 10;
/** A loss is said where it happened, after what waited; where that takes no end, this often. */
const TELL_MS = 1_000;
const NOTHING = new Uint8Array();

/** `later`: what was given before has not been taken yet. */
type Outcome = "written" | "later" | "lost";

export class LogDrain {
  readonly #options: LogDrainOptions;
  readonly #piece = new Uint8Array(PIPE_BYTES);
  /** Of the last piece, what was not taken yet. */
  #rest: Uint8Array = NOTHING;
  #told = 0;
  #noticedMs: number | undefined;
  #failure = "";

  constructor(options: LogDrainOptions) {
    this.#options = options;
  }

  /** Writes what waits. False: the reader must be waited for, and this called again. */
  run(): boolean {
    const { rings } = this.#options;
    while (!rings.isEmpty) {
      for (const ring of rings.each) if (!this.#writePiece(ring)) return false;
      if (!this.#tellLoss()) return false;
    }
    return this.#writeRest();
  }

  #writePiece(ring: LogRing): boolean {
    const found = this.#piece.subarray(0, ring.peek(this.#piece));
    if (found.length === 0) return true;
    // Whole lines, unless one is longer than a piece.
    const piece = found.subarray(0, found.lastIndexOf(NEWLINE) + 1 || found.length);
    const outcome = this.#write(piece);
    if (outcome === "later") return false;
    if (outcome === "lost") ring.lose(countLines(piece));
    ring.drop(piece.length);
    return true;
  }

  #tellLoss(): boolean {
    const { rings, format, now } = this.#options;
    const { lost } = rings;
    const timeMs = now();
    if (lost === this.#told) return true;
    this.#noticedMs ??= timeMs;
    if (!rings.isEmpty && timeMs - this.#noticedMs < TELL_MS) return true;
    const record: LogRecord = {
      timeMs,
      level: "warn",
      message: "log lines lost",
      fields: {
        lines: lost - this.#told,
        reason: this.#failure || "standard error was not read in time",
      },
    };
    const outcome = this.#write(new TextEncoder().encode(`${format(record)}\n`));
    if (outcome === "written") {
      this.#told = lost;
      this.#noticedMs = undefined;
      this.#failure = "";
    }
    return outcome !== "later";
  }

  #write(bytes: Uint8Array): Outcome {
    return this.#writeRest() ? this.#push(bytes) : "later";
  }

  #writeRest(): boolean {
    const rest = this.#rest;
    this.#rest = NOTHING;
    if (rest.length > 0) this.#push(rest);
    return this.#rest.length === 0;
  }

  /** What is not taken now is as good as written: {@link #rest} keeps it. */
  #push(bytes: Uint8Array): "written" | "lost" {
    let done = 0;
    try {
      while (done < bytes.length) done += this.#options.write(bytes.subarray(done));
      return "written";
    } catch (error) {
      const code = (error as { readonly code?: unknown }).code;
      if (code !== "EAGAIN") {
        this.#failure = String(code ?? error);
        return "lost";
      }
      this.#rest = bytes.slice(done);
      return "written";
    }
  }
}

function countLines(bytes: Uint8Array): number {
  return bytes.reduce((count, byte) => byte === NEWLINE ? count + 1 : count, 0);
}
