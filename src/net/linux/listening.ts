/**
 * Options of a listening socket that no runtime sets. Both only help: a kernel without them is no fault.
 *
 * @module
 */

import { cLibrary } from "./c_library.ts";

/** The kernel takes no more than its own limit (`net.core.somaxconn`, 4096 by default). */
const BACKLOG = 4_096;
const IPPROTO_TCP = 6;
const TCP_DEFER_ACCEPT = 9;
/** A client silent for longer is accepted all the same, so that its owner can count and judge it. */
const DEFER_SECONDS = 1;

/**
 * Lets more clients wait for an accept. The runtime asks for 512; with a burst of more, or a busy thread,
 * the kernel would drop clients that believe to be connected.
 */
export function lengthenBacklog(fd: number): void {
  cLibrary()?.listen(fd, BACKLOG);
}

/**
 * Has the kernel hand out a connection only once its client has sent something, for listeners that read
 * the first message before anything else: it is there then, without a wait.
 */
export function deferAccept(fd: number): void {
  const value = new Uint8Array(new Int32Array([DEFER_SECONDS]).buffer);
  cLibrary()?.setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, value, value.length);
}
