/**
 * Targets of the access log: standard output, standard error, or a file that is only appended to. No thread
 * that does anything else waits for them.
 *
 * @module
 */

import { constants, type FileHandle, open } from "node:fs/promises";
import { openStandardStream, PIPE_BYTES, STDERR, STDOUT } from "../../net/mod.ts";
import type { AccessLogTarget, Snapshot } from "../../snapshot/mod.ts";

export interface OpenTarget {
  /** Most bytes for one write. */
  readonly pieceBytes: number;
  /**
   * Resolves with the number of bytes taken. Rejects with the error of the system call and its `code`:
   * `EAGAIN` where nothing is taken now.
   */
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
export async function openTarget(target: AccessLogTarget): Promise<OpenTarget> {
  switch (target.kind) {
    case "stdout":
      return standardTarget(STDOUT);
    case "stderr":
      return standardTarget(STDERR);
    case "file":
      return fileTarget(await open(target.path, FLAGS, MODE));
  }
}

function standardTarget(fd: typeof STDOUT | typeof STDERR): OpenTarget {
  const writeNow = openStandardStream(fd);
  return {
    pieceBytes: PIPE_BYTES,
    // A pipe takes such a piece whole, so that lines of other writers do not split it.
    // deno-lint-ignore require-await -- an error becomes a rejection
    write: async (bytes) => writeNow(bytes),
    close: () => Promise.resolve(),
  };
}

function fileTarget(file: FileHandle): OpenTarget {
  return {
    pieceBytes: FILE_PIECE_BYTES,
    write: async (bytes) => (await file.write(bytes)).bytesWritten,
    close: () => file.close(),
  };
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
