/** Datagrams: over UDP, and to a unix socket, which no runtime offers. @module */

import { Buffer } from "node:buffer";
import { createSocket } from "node:dgram";
import { messageOf } from "../base/mod.ts";
import { cLibrary } from "./linux/c_library.ts";
import { sendDescriptors } from "./linux/descriptors.ts";

/** `unsupported`: this runtime or system cannot, whatever the path. */
export type DatagramResult = "sent" | "failed" | "unsupported";

const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
/** MSG_NOSIGNAL and MSG_DONTWAIT: a receiver that does not read causes neither a signal nor a wait. */
const SEND_FLAGS = 0x4000 | 0x40;
/** Size of `sun_path`. */
const PATH_LIMIT = 108;

/**
 * Sends `text` to the socket at `path`; `@name` is an abstract one. With it go copies of `descriptors`, at
 * most {@link DESCRIPTORS_PER_MESSAGE}. Never throws.
 */
export function sendUnixDatagram(
  path: string,
  text: string,
  descriptors: readonly number[] = [],
): DatagramResult {
  const library = cLibrary();
  if (!library) return "unsupported";
  const address = socketAddress(path);
  const data = Buffer.from(text);
  if (!address || data.length === 0) return "failed";
  const fd = library.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "failed";
  try {
    if (descriptors.length > 0) {
      const isConnected = library.connect(fd, address, address.length) === 0;
      return isConnected && sendDescriptors(fd, data, descriptors) === data.length
        ? "sent"
        : "failed";
    }
    const sent = library.sendto(fd, data, data.length, SEND_FLAGS, address, address.length);
    return Number(sent) === data.length ? "sent" : "failed";
  } finally {
    library.close(fd);
  }
}

/** `sockaddr_un` (an abstract name begins with `@`), or `undefined` for a path that does not fit or is neither absolute nor abstract. */
export function socketAddress(path: string): Uint8Array | undefined {
  const isAbstract = path.startsWith("@");
  if (!isAbstract && !path.startsWith("/")) return undefined;
  const name = Buffer.from(isAbstract ? `\0${path.slice(1)}` : `${path}\0`);
  // Linux takes an abstract name as long as the field; a path needs its ending zero.
  if (name.length > PATH_LIMIT) return undefined;
  const family = new Uint8Array(new Uint16Array([AF_UNIX]).buffer);
  return Buffer.concat([family, name]);
}

export interface UdpSender {
  /** Never waits; `onSent` of {@link openUdpSender} gets the result. */
  send(datagram: string): void;
  close(): void;
}

/** `onSent`: called for each datagram with the reason why it could not be sent; undefined: it was. */
export function openUdpSender(
  { host, port }: { readonly host: string; readonly port: number },
  onSent: (fault: string | undefined) => void,
): UdpSender {
  const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
  // An open sender does not keep the process alive.
  socket.unref();
  socket.on("error", (error) => onSent(messageOf(error)));
  return {
    send(datagram) {
      socket.send(datagram, port, host, (error) => onSent(error ? messageOf(error) : undefined));
    },
    close: () => void socket.close(),
  };
}
