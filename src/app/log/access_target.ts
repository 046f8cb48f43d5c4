/**
 * What the access log is written to: standard output, standard error, or a file that is only ever added
 * to. None of them is waited for by a thread that does anything else.
 *
 * @module
 */

import { constants, type FileHandle, open } from "node:fs/promises";
import { openStandardStream, PIPE_BYTES, STDERR, STDOUT } from "../../net/mod.ts";
import type { AccessLogTarget, Snapshot } from "../../snapshot/mod.ts";

export interface OpenTarget {
  /** At most so many bytes are to be given at once. */
  readonly pieceBytes: number;
  /**
   * How many of them were taken. Rejects with what a system call says, with its `code`: `EAGAIN` where
   * nothing is taken now.
   */
  write(bytes: Uint8Array): Promise<number>;
  close(): Promise<void>;
}

/** Of a file; a write of this size is one system call of another thread. */
const FILE_PIECE_BYTES = 64 * 1024;
/** Whoever reads logs is in the group of those who may. */
const MODE = 0o640;
/** A pipe without a reader, or a terminal, holds nobody up. */
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
    // A pipe takes such a piece whole, so that lines of others do not get into ours.
    // deno-lint-ignore require-await -- what it throws is to be a rejection
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

/** What of a snapshot says where lines go. */
type LinesOf = Pick<Snapshot, "accessLog" | "inbound" | "upstreams" | "edges">;

/** Plugins write lines where nobody turned the access log on, too; `null`: nobody writes any. */
export function accessTargetOf(
  { accessLog, inbound, upstreams, edges }: LinesOf,
): AccessLogTarget | null {
  if (accessLog) return accessLog.to;
  const parts = Object.values({ ...inbound, ...upstreams, ...edges });
  return parts.some(({ plugins }) => plugins.length > 0) ? { kind: "stdout" } : null;
}
