/** UDP datagrams to one address or host name. @module */

import { createSocket } from "node:dgram";
import { messageOf } from "../base/mod.ts";

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
