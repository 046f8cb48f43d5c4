/** Descriptors of sockets: duplicated, read, and passed between processes (SCM_RIGHTS). @module */

import { Buffer } from "node:buffer";
import { type BindAddress, formatAddress } from "../../base/mod.ts";
import { addressOf, cLibrary } from "./c_library.ts";

const F_DUPFD_CLOEXEC = 1030;
const SOL_SOCKET = 1;
const SO_REUSEPORT = 15;
const SO_PEERCRED = 17;
const SO_ACCEPTCONN = 30;
const SCM_RIGHTS = 1;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const MSG_CTRUNC = 0x08;
const MSG_CMSG_CLOEXEC = 0x4000_0000;
const POLLIN = 1;
const POLLOUT = 4;
const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
/** `sockaddr_storage`. */
const ADDRESS_BYTES = 128;

/** Most descriptors of one message. The kernel's limit is 253. */
export const DESCRIPTORS_PER_MESSAGE = 200;
const CONTROL_HEADER_BYTES = 16;
const CONTROL_BYTES = CONTROL_HEADER_BYTES + 256 * 4;
const HEADER_BYTES = 56;
const CHUNK_BYTES = 65_536;

/** Undefined: no descriptor is left, or the system cannot. */
export function duplicate(fd: number): number | undefined {
  const copy = cLibrary()?.fcntl(fd, F_DUPFD_CLOEXEC, 0) ?? -1;
  return copy < 0 ? undefined : copy;
}

export function closeDescriptor(fd: number): void {
  cLibrary()?.close(fd);
}

/** Further sockets of this process may bind the same address from now on. */
export function sharePort(fd: number): void {
  const value = bytesOf(4);
  value[0] = 1;
  cLibrary()?.setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, value, value.length);
}

/** The address that a listening socket is bound to; undefined: it is no listening socket. */
export function listeningAt(fd: number): BindAddress | undefined {
  if (option(fd, SO_ACCEPTCONN, 4)?.getInt32(0, true) !== 1) return undefined;
  const address = bytesOf(ADDRESS_BYTES);
  const length = bytesOf(4);
  const view = new DataView(address.buffer);
  new DataView(length.buffer).setInt32(0, ADDRESS_BYTES, true);
  if (cLibrary()?.getsockname(fd, address, length) !== 0) return undefined;
  switch (view.getUint16(0, true)) {
    case AF_INET:
      return { kind: "tcp", host: address.subarray(4, 8).join("."), port: view.getUint16(2) };
    case AF_INET6:
      return { kind: "tcp", host: ipv6Text(address.subarray(8, 24)), port: view.getUint16(2) };
    case AF_UNIX: {
      const size = new DataView(length.buffer).getInt32(0, true);
      const path = Buffer.from(address.subarray(2, size)).toString().replace(/\0.*$/s, "");
      return path === "" ? undefined : { kind: "unix", path };
    }
    default:
      return undefined;
  }
}

/** The same, as a configuration has it. */
export function listeningAddress(fd: number): string | undefined {
  const address = listeningAt(fd);
  return address && formatAddress(address);
}

/** In the form of RFC 5952. */
function ipv6Text(bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, 16);
  const groups = Array.from({ length: 8 }, (_, at) => view.getUint16(at * 2).toString(16));
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}

/** The process at the other end of a unix socket, as the kernel knows it. */
export interface PeerProcess {
  readonly pid: number;
  readonly uid: number;
}

export function peerProcess(fd: number): PeerProcess | undefined {
  const found = option(fd, SO_PEERCRED, 12);
  return found && { pid: found.getInt32(0, true), uid: found.getUint32(4, true) };
}

function option(fd: number, name: number, size: number): DataView | undefined {
  const value = bytesOf(size);
  const length = bytesOf(4);
  length[0] = size;
  const isRead = cLibrary()?.getsockopt(fd, SOL_SOCKET, name, value, length) === 0;
  return isRead ? new DataView(value.buffer) : undefined;
}

/** The number of bytes sent, and with them all descriptors; `full`: none, because the other end does not read. */
export function sendDescriptors(
  fd: number,
  data: Uint8Array,
  descriptors: readonly number[],
): number | "full" | "failed" {
  const library = cLibrary();
  if (!library) return "failed";
  const payload = bytesOf(data.length);
  payload.set(data);
  const control = bytesOf(CONTROL_HEADER_BYTES + Math.ceil(descriptors.length / 2) * 8);
  const view = new DataView(control.buffer);
  view.setBigUint64(0, BigInt(CONTROL_HEADER_BYTES + descriptors.length * 4), true);
  view.setInt32(8, SOL_SOCKET, true);
  view.setInt32(12, SCM_RIGHTS, true);
  for (const [at, one] of descriptors.entries()) {
    view.setInt32(CONTROL_HEADER_BYTES + at * 4, one, true);
  }
  const header = headerOf(payload, descriptors.length > 0 ? control : undefined);
  const send = () => Number(library.sendmsg(fd, header, MSG_DONTWAIT | MSG_NOSIGNAL));
  const sent = resultOf(send, () => isReady(fd, POLLOUT));
  return sent === "not yet" ? "full" : sent;
}

/**
 * The result of a system call that does not wait. The error number cannot be read, so a call that fails
 * although the descriptor is ready has failed. It may have become ready after the call, so it is called
 * again before.
 */
export function resultOf(
  call: () => number,
  isReady: () => boolean,
): number | "not yet" | "failed" {
  for (let left = 2; left > 0; left--) {
    const result = call();
    if (result >= 0) return result;
    if (!isReady()) return "not yet";
  }
  return "failed";
}

export type Received =
  | { readonly kind: "data"; readonly data: Uint8Array; readonly descriptors: readonly number[] }
  /** Not yet. */
  | { readonly kind: "nothing" }
  | { readonly kind: "ended" };

/** Reads what has come. Descriptors that do not fit end the stream. */
export function receiveDescriptors(fd: number): Received {
  const library = cLibrary();
  if (!library) return { kind: "ended" };
  const payload = bytesOf(CHUNK_BYTES);
  const control = bytesOf(CONTROL_BYTES);
  const header = headerOf(payload, control);
  const receive = () => Number(library.recvmsg(fd, header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
  const size = resultOf(receive, () => isReady(fd, POLLIN));
  if (size === "not yet") return { kind: "nothing" };
  if (size === "failed") return { kind: "ended" };
  const facts = new DataView(header.buffer);
  const descriptors = descriptorsIn(control, Number(facts.getBigUint64(40, true)));
  if (size === 0 || facts.getInt32(48, true) & MSG_CTRUNC) {
    for (const one of descriptors) library.close(one);
    return { kind: "ended" };
  }
  return { kind: "data", data: payload.slice(0, size), descriptors };
}

function descriptorsIn(control: Uint8Array, size: number): readonly number[] {
  const view = new DataView(control.buffer);
  const found: number[] = [];
  for (let at = 0; at + CONTROL_HEADER_BYTES <= size;) {
    const length = Number(view.getBigUint64(at, true));
    if (length < CONTROL_HEADER_BYTES) break;
    const isRights = view.getInt32(at + 8, true) === SOL_SOCKET &&
      view.getInt32(at + 12, true) === SCM_RIGHTS;
    for (let next = at + CONTROL_HEADER_BYTES; isRights && next + 4 <= at + length; next += 4) {
      found.push(view.getInt32(next, true));
    }
    at += Math.ceil(length / 8) * 8;
  }
  return found;
}

/** What the last `msghdr` points to: not collected before the call. */
const pointedTo: Uint8Array[] = [];

/** A `msghdr`. */
function headerOf(
  payload: Uint8Array,
  control: Uint8Array | undefined,
): Uint8Array<ArrayBuffer> {
  const vector = bytesOf(16);
  const vectorView = new DataView(vector.buffer);
  vectorView.setBigUint64(0, addressOf(payload), true);
  vectorView.setBigUint64(8, BigInt(payload.length), true);
  const header = bytesOf(HEADER_BYTES);
  const view = new DataView(header.buffer);
  view.setBigUint64(16, addressOf(vector), true);
  view.setBigUint64(24, 1n, true);
  if (control) {
    view.setBigUint64(32, addressOf(control), true);
    view.setBigUint64(40, BigInt(control.length), true);
  }
  pointedTo.splice(0, pointedTo.length, payload, vector, ...control ? [control] : []);
  return header;
}

function isReady(fd: number, events: number): boolean {
  const words = new DataView(new ArrayBuffer(8));
  words.setInt32(0, fd, true);
  words.setInt16(4, events, true);
  return (cLibrary()?.poll(new Uint8Array(words.buffer), 1, 0) ?? 0) > 0;
}

/** With a buffer of its own, which does not move. */
function bytesOf(size: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new ArrayBuffer(size));
}
