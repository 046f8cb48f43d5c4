/** Datagrams by UDP to one address, a host name perhaps. @module */

import { createSocket } from "node:dgram";
import { messageOf } from "../base/mod.ts";

export interface UdpSender {
  /** Never waits; `onSent` of {@link openUdpSender} is told what came of it. */
  send(datagram: string): void;
  close(): void;
}

/** `onSent`: told of each datagram why it could not be sent; undefined: it was. */
export function openUdpSender(
  { host, port }: { readonly host: string; readonly port: number },
  onSent: (fault: string | undefined) => void,
): UdpSender {
  const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
  // It keeps no process from ending.
  socket.unref();
  socket.on("error", (error) => onSent(messageOf(error)));
  return {
    send(datagram) {
      socket.send(datagram, port, host, (error) => onSent(error ? messageOf(error) : undefined));
    },
    close: () => void socket.close(),
  };
}
