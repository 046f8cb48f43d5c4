/**
 * How many clients may wait to be accepted. The runtime asks for 512; a burst of more, or a moment in
 * which the thread is busy, would have clients that believe to be connected and are dropped.
 *
 * @module
 */

import { openCLibrary } from "./c_library.ts";

interface CLibrary {
  listen(fd: number, backlog: number): number;
}

/** The kernel takes no more than its own limit (`net.core.somaxconn`, 4096 by default). */
const BACKLOG = 4_096;
let library: CLibrary | null | undefined;

/** Lengthens the queue of a socket that listens already; it stays as it is where that cannot be done. */
export function lengthenBacklog(fd: number): void {
  library ??= openCLibrary<CLibrary>({
    listen: { args: ["i32", "i32"], returns: "i32" },
  }) ?? null;
  library?.listen(fd, BACKLOG);
}
