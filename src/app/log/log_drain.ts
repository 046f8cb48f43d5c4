/**
 * Takes lines out of the rings and writes them, in pieces that a pipe takes whole. A failure to write loses
 * the lines; a line says so when a later piece can be written.
 *
 * @module
 */

import type { LogRecord } from "../../base/mod.ts";
import { PIPE_BYTES, type WriteNow } from "../../net/mod.ts";
import type { LogRing, LogRings } from "./log_rings.ts";

interface LogDrainOptions {
  readonly rings: LogRings;
  readonly format: (record: LogRecord) => string;
  readonly now: () => number;
  readonly write: WriteNow;
}

/** A loss is reported after the lines that waited; while lines keep coming, at this interval. */
const REPORT_MS = 1_000;
const NOTHING = new Uint8Array();

/** `later`: the bytes before have not been taken yet. */
type Outcome = "written" | "later" | "lost";

export class LogDrain {
  readonly #options: LogDrainOptions;
  readonly #piece = new Uint8Array(PIPE_BYTES);
  /** The part of the last piece that was not taken yet. */
  #rest: Uint8Array = NOTHING;
  #reported = 0;
  #noticedMs: number | undefined;
  #failure = "";

  constructor(options: LogDrainOptions) {
    this.#options = options;
  }

  /** Writes the waiting lines. False: the reader is behind, and this must be called again. */
  run(): boolean {
    const { rings } = this.#options;
    while (!rings.isEmpty) {
      for (const ring of rings.each) if (!this.#writePiece(ring)) return false;
      if (!this.#reportLoss()) return false;
    }
    return this.#writeRest();
  }

  #writePiece(ring: LogRing): boolean {
    const piece = ring.peekLines(this.#piece);
    if (piece.length === 0) return true;
    const outcome = this.#write(piece);
    if (outcome === "later") return false;
    if (outcome === "lost") ring.losePiece(piece);
    ring.drop(piece.length);
    return true;
  }

  #reportLoss(): boolean {
    const { rings, format, now } = this.#options;
    const { lost } = rings;
    const timeMs = now();
    if (lost === this.#reported) return true;
    this.#noticedMs ??= timeMs;
    if (!rings.isEmpty && timeMs - this.#noticedMs < REPORT_MS) return true;
    const record: LogRecord = {
      timeMs,
      level: "warn",
      message: "log lines lost",
      fields: {
        lines: lost - this.#reported,
        reason: this.#failure || "standard error was not read in time",
      },
    };
    const outcome = this.#write(new TextEncoder().encode(`${format(record)}\n`));
    if (outcome === "written") {
      this.#reported = lost;
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

  /** Bytes that are not taken now count as written: {@link #rest} keeps them. */
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
