/**
 * What the kernel does for a socket that listens, beyond what a runtime asks it for. Both only help:
 * where they cannot be had, things stay as they are.
 *
 * @module
 */

import { cLibrary } from "./c_library.ts";

/** The kernel takes no more than its own limit (`net.core.somaxconn`, 4096 by default). */
const BACKLOG = 4_096;
const IPPROTO_TCP = 6;
const TCP_DEFER_ACCEPT = 9;
/** A client silent for longer is handed out as it is, so that its owner can count and judge it. */
const DEFER_SECONDS = 1;

/**
 * Lets more clients wait to be accepted. The runtime asks for 512; a burst of more, or a moment in which
 * the thread is busy, would have clients that believe to be connected and are dropped.
 */
export function lengthenBacklog(fd: number): void {
  cLibrary()?.listen(fd, BACKLOG);
}

/**
 * Has a connection handed out only once its client has spoken, for listeners that look at the first
 * message before anything else: it is there then, and nobody has to wait for it.
 */
export function deferAccept(fd: number): void {
  const value = new Uint8Array(new Int32Array([DEFER_SECONDS]).buffer);
  cLibrary()?.setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, value, value.length);
}
