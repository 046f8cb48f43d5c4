/** Writes the access log from the rings. Traffic never waits: late lines are lost, counted. @module */

import {
  type Clock,
  type Counter,
  type Log,
  messageOf,
  sleep,
  type Stats,
} from "../../base/mod.ts";
import type { AccessLogTarget, Snapshot } from "../../snapshot/mod.ts";
import { type LogRing, type LogRings, NEWLINE } from "./log_rings.ts";
import { constants, open } from "node:fs/promises";
import { openStandardStream, PIPE_BYTES, STDERR, STDOUT } from "../../net/mod.ts";

interface AccessWriterOptions {
  readonly rings: LogRings;
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  /** For tests: opens the target. */
  readonly openTarget?: typeof openTarget;
}

/** Interval of tries while the reader is behind. */
const RETRY_MS = 50;
/** Delay before a target that could not be opened is tried again. */
const REOPEN_MS = 1_000;
/** Shortest interval between reports of losses. */
const REPORT_MS = 10_000;
/** Time that the last lines of a process may take. */
const LAST_LINES_MS = 1_000;
const WASTE_BYTES = 4_096;

export class AccessWriter {
  readonly #options: AccessWriterOptions;
  readonly #open: typeof openTarget;
  readonly #lost: Counter;
  /** `undefined`: not known yet, and the rings keep their lines; `null`: there is no access log. */
  #to: AccessLogTarget | null | undefined;
  #target: OpenTarget | undefined;
  /** The open target is not the wanted one. */
  #stale = false;
  #openAgainMs = -Infinity;
  #running: Promise<void> | undefined;
  #again = false;
  #buffer = new Uint8Array();
  /** The last piece ended in the middle of a line. */
  #torn = false;
  #failure = "";
  #reported = 0;
  #reportedMs = -Infinity;

  constructor(options: AccessWriterOptions) {
    this.#options = options;
    this.#open = options.openTarget ?? openTarget;
    this.#lost = options.stats.counter(
      "access_log_lines_dropped_total",
      "Access log lines that were lost because their target could not be written in time",
    );
  }

  /** Sets the target of lines from now on; `null`: there is no access log. */
  set(to: AccessLogTarget | null): void {
    const before = this.#to;
    this.#to = to;
    const isSame = before?.kind === to?.kind &&
      (before?.kind !== "file" || to?.kind === "file" && before.path === to.path);
    if (isSame) return;
    // Lines from before are still written.
    if (to === null) this.drain();
    else this.reopen();
  }

  /** Opens the file again, after it was moved away. */
  reopen(): void {
    this.#stale = true;
    this.#openAgainMs = -Infinity;
    this.drain();
  }

  /** Writes the lines in the rings. Never waits. */
  drain(): void {
    this.#options.rings.answer();
    this.#again = true;
    this.#running ??= this.#run().finally(() => this.#running = undefined);
  }

  /** Writes the last lines, within a time limit. */
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
      this.#report();
    }
    // The access log is off, and every wanted line is written.
    if (this.#to === null) await this.#change();
  }

  async #empty(ring: LogRing): Promise<void> {
    while (!ring.isEmpty) {
      const target = await this.#wanted();
      if (!target) {
        // Without an access log late lines are dropped; else the rings keep them for the next try.
        if (this.#to === null) forget(ring);
        return;
      }
      if (this.#buffer.length !== target.pieceBytes) {
        this.#buffer = new Uint8Array(target.pieceBytes);
      }
      const piece = ring.peekLines(this.#buffer);
      if (!await this.#write(target, piece)) ring.losePiece(piece);
      ring.drop(piece.length);
    }
  }

  /** The wanted target, open; `undefined`: there is none now. */
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
    // A failure to close a file that is given up has no remedy.
    await before?.close().catch(() => {});
  }

  /** False: the piece could not be written. */
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

  /** Waits for a reader that is behind, unless another target is wanted. */
  async #push(target: OpenTarget, bytes: Uint8Array): Promise<number> {
    for (;;) {
      try {
        return await target.write(bytes);
      } catch (error) {
        if ((error as { readonly code?: unknown }).code !== "EAGAIN" || this.#stale) throw error;
      }
      this.#report();
      await sleep(this.#options.clock, RETRY_MS);
    }
  }

  #report(): void {
    const { rings, clock, log } = this.#options;
    const { lost } = rings;
    this.#lost.add(lost - this.#lost.value);
    const nowMs = clock.monotonic();
    if (lost === this.#reported || nowMs - this.#reportedMs < REPORT_MS) return;
    log.warn("access log lines lost", {
      lines: lost - this.#reported,
      reason: this.#failure || "it was not written in time",
    });
    this.#reported = lost;
    this.#reportedMs = nowMs;
  }
}

function forget(ring: LogRing): void {
  const waste = new Uint8Array(WASTE_BYTES);
  for (let length = ring.peek(waste); length > 0; length = ring.peek(waste)) ring.drop(length);
}

interface OpenTarget {
  readonly pieceBytes: number;
  /** Resolves with the bytes taken. Rejects with the system's error; `EAGAIN`: none now. */
  write(bytes: Uint8Array): Promise<number>;
  close(): Promise<void>;
}

/** Bytes written to a file at once, by one system call of another thread. */
const FILE_PIECE_BYTES = 64 * 1024;
/** Readers of logs are in the file's group. */
const MODE = 0o640;
/** Opening a pipe without a reader, or a terminal, does not block. */
const FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK |
  constants.O_NOCTTY;

/** Rejects where the file cannot be opened. */
async function openTarget(target: AccessLogTarget): Promise<OpenTarget> {
  switch (target.kind) {
    case "stdout":
    case "stderr": {
      const writeNow = openStandardStream(target.kind === "stdout" ? STDOUT : STDERR);
      return {
        pieceBytes: PIPE_BYTES,
        // A pipe takes such a piece whole, so that lines of other writers do not split it.
        // deno-lint-ignore require-await -- an error becomes a rejection
        write: async (bytes) => writeNow(bytes),
        close: () => Promise.resolve(),
      };
    }
    case "file": {
      const file = await open(target.path, FLAGS, MODE);
      return {
        pieceBytes: FILE_PIECE_BYTES,
        write: async (bytes) => (await file.write(bytes)).bytesWritten,
        close: () => file.close(),
      };
    }
  }
}

type LinesOf = Pick<Snapshot, "accessLog" | "inbound" | "upstreams" | "edges">;

/** Plugins write lines to standard output without an access log, too; `null`: there are no lines. */
export function accessTargetOf(
  { accessLog, inbound, upstreams, edges }: LinesOf,
): AccessLogTarget | null {
  if (accessLog) return accessLog.to;
  const parts = Object.values({ ...inbound, ...upstreams, ...edges });
  return parts.some(({ plugins }) => plugins.length > 0) ? { kind: "stdout" } : null;
}
