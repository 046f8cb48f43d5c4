/** Addresses and ports for stories that must know them before any program listens there. @module */

import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:net";

/**
 * A loopback address of its own for one story, so that no other process can be in the way of its
 * ports. Linux answers on the whole of 127/8.
 */
export function loopbackHost(): string {
  const byte = () => 1 + Math.floor(Math.random() * 254);
  return `127.${byte()}.${byte()}.${byte()}`;
}

/** Below the ports that the system gives to sockets that bind port 0, or dial. */
const FIRST_PORT = 10_000;
const LAST_PORT = firstEphemeralPort() - 1;
/**
 * Ports given by this process: nothing listens there yet, and the next story must not get them, too.
 */
const given = new Set<string>();

/**
 * Free ports on `host` that no other program gets by chance until the story has taken them: the system
 * gives none of this range to sockets that do not name one.
 */
export async function freePorts(host: string, count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT + 1));
    const place = `${host}:${port}`;
    if (given.has(place) || !await isFree(host, port)) continue;
    given.add(place);
    ports.push(port);
  }
  return ports;
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = await new Promise<Server | undefined>((resolve, reject) => {
    const server = createServer();
    server.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(undefined);
      else reject(error);
    });
    server.listen(port, host, () => resolve(server));
  });
  if (!server) return false;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return true;
}

function firstEphemeralPort(): number {
  const range = readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8");
  const first = Number(range.trim().split(/\s+/)[0]);
  // Where the system gives nearly all of them there is no better range than the usual one.
  return first > FIRST_PORT + 5_000 ? first : 32_768;
}

export async function freePort(host: string): Promise<number> {
  return (await freePorts(host, 1))[0] ?? 0;
}
