/**
 * Has the kernel hand out a connection only once its client has spoken, for listeners that look at the
 * first message before anything else: it is there then, and nobody has to wait for it.
 *
 * @module
 */

import { openCLibrary } from "./c_library.ts";

interface CLibrary {
  setsockopt(
    fd: number,
    level: number,
    option: number,
    value: Uint8Array,
    size: number,
  ): number;
}

const IPPROTO_TCP = 6;
const TCP_DEFER_ACCEPT = 9;
/** A client silent for longer is handed out as it is, so that its owner can count and judge it. */
const SECONDS = 1;
let library: CLibrary | null | undefined;

/** Only makes things faster: where it cannot be had, clients are handed out at once as before. */
export function deferAccept(fd: number): void {
  library ??= openCLibrary<CLibrary>({
    setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
  }) ?? null;
  const value = new Uint8Array(new Int32Array([SECONDS]).buffer);
  library?.setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, value, value.length);
}
