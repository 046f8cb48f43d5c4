/**
 * Standard output and error without waiting: the reader may stall for hours, and the thread that writes
 * goes on. The descriptor's own flags are not changed: a shell or a supervisor shares them.
 *
 * @module
 */

import { constants, fstatSync, openSync, type Stats, writeSync } from "node:fs";
import process from "node:process";
import { cLibrary } from "./c_library.ts";

/** Returns the bytes taken, of {@link PIPE_BYTES} at most; throws `EAGAIN` if none are. */
export type WriteNow = (bytes: Uint8Array) => number;

/** Bytes that a writable pipe takes in one piece (PIPE_BUF). */
export const PIPE_BYTES = 4_096;

/** Descriptors of standard output and standard error. */
export const STDOUT = 1;
export const STDERR = 2;
const POLLOUT = 4;
/** POLLERR and POLLHUP: the reader is gone. */
const POLL_GONE = 8 | 16;
/** MSG_NOSIGNAL and MSG_DONTWAIT. */
const SEND_FLAGS = 0x4000 | 0x40;

export function openStandardStream(fd: number): WriteNow {
  const kind = kindOf(fd);
  // A file takes what is written, or fails.
  if (!kind || kind.isFile() || process.platform !== "linux") {
    return (bytes) => writeSync(fd, bytes);
  }
  if (!kind.isSocket()) {
    try {
      const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
      const own = openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
      return (bytes) => writeSync(own, bytes);
    } catch {
      // A pipe or terminal of another user's, or no /proc.
    }
  }
  return whereItHasRoom(fd, kind) ?? ((bytes) => writeSync(fd, bytes));
}

/** For descriptors that cannot be opened again: polls the kernel first. */
function whereItHasRoom(fd: number, kind: Stats): WriteNow | undefined {
  const library = cLibrary();
  if (!library) return undefined;
  // `struct pollfd`: fd, events, revents.
  const words = new Int16Array(4);
  new Int32Array(words.buffer, 0, 1)[0] = fd;
  words[2] = POLLOUT;
  const pollfd = new Uint8Array(words.buffer);
  return (bytes) => {
    const found = library.poll(pollfd, 1, 0) > 0 ? words[3] ?? 0 : 0;
    if (found & POLL_GONE) throw failure("EPIPE");
    if (!(found & POLLOUT)) throw failure("EAGAIN");
    if (!kind.isSocket()) return writeSync(fd, bytes);
    const sent = Number(library.send(fd, bytes, bytes.length, SEND_FLAGS));
    if (sent < 0) throw failure("EAGAIN");
    return sent;
  };
}

function kindOf(fd: number): Stats | undefined {
  try {
    return fstatSync(fd);
  } catch {
    // Closed: the write reports that.
    return undefined;
  }
}

function failure(code: string): Error {
  return Object.assign(new Error(`Cannot write: ${code}`), { code });
}
