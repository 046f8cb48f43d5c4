/**
 * Run by `strangers.ts`: callers without a certificate, as its argument describes, until standard input
 * ends. They have a process of their own, so that their cost does not slow down the observers.
 *
 * @module
 */

import { connect, type Socket } from "node:net";
import process from "node:process";
import type { StrangersOptions } from "./strangers.ts";

const { place, silent, storm, addresses }: StrangersOptions = JSON.parse(process.argv[2] ?? "");
const sockets = new Set<Socket>();
let opened = 0;
let connected = 0;
let over = false;

function open(onConnected: (socket: Socket) => void): void {
  const localAddress = addresses[opened++ % addresses.length];
  const socket = connect({ ...place, ...(localAddress && { localAddress }) });
  sockets.add(socket);
  socket.on("error", () => {});
  socket.on("close", () => {
    sockets.delete(socket);
    if (!over && storm > 0) open(onConnected);
  });
  socket.on("connect", () => {
    connected++;
    onConnected(socket);
  });
}

const NOT_TLS = new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n");
let started = false;

function connectedOne(socket: Socket): void {
  if (storm > 0) {
    socket.write(NOT_TLS);
    setImmediate(() => socket.destroy());
  }
  if (started || connected < Math.max(silent, 1)) return;
  started = true;
  process.stdout.write("started\n");
}

for (let index = 0; index < Math.max(silent, storm); index++) open(connectedOne);
process.stdin.resume().on("end", () => {
  over = true;
  process.stdout.write(`${JSON.stringify({ connected, open: sockets.size })}\n`, () => {
    process.exit(0);
  });
});
