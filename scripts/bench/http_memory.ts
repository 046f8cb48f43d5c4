/**
 * Memory of sidecars that speak HTTP: before their first connection, for each open connection, while a
 * million requests pass, and a while after. Each is measured on processes that have done nothing else.
 *
 * @module
 */

import { connect, type Socket } from "node:net";
import { pause } from "../../test/kit/process/process.ts";
import type { SideName, Subject } from "./cell.ts";
import { residentBytes } from "./counters.ts";
import { runH2load } from "./load.ts";
import { HOST } from "./site.ts";

export interface StreamMemory {
  readonly pair: string;
  readonly side: SideName;
  /** Before the first connection, as all sizes in megabytes (2 ** 20 bytes). */
  readonly idleMb: number;
  readonly kbPerConnection: number | undefined;
  readonly failed?: string;
}

export interface FlatMemory {
  readonly pair: string;
  readonly side: SideName;
  readonly what: string;
  readonly idleMb: number;
  /** Sizes after {@link REQUESTS} requests each. */
  readonly sizesMb: readonly number[];
  /** {@link QUIET_MS} after the last of them. */
  readonly laterMb: number;
}

/** Connections with an open stream. */
export const CONNECTIONS = 1_000;
/** Steps of the load, in requests since its start. */
export const REQUESTS = [100_000, 300_000, 600_000, 1_000_000] as const;
/** From the end of a load until a sidecar is called idle again. */
export const QUIET_MS = 30_000;

const WARM_CONNECTIONS = 100;
const AT_ONCE = 50;
/** Collectors get this long to give back what is no longer used. */
const SETTLE_MS = 2_000;
/** Postern gives back what its start needed a few seconds after it. */
const IDLE_MS = 5_000;
/** A collector that waits for a pause has one of this length. */
const PAUSE_MS = 5_000;
/** A million requests take no longer on a machine that is worth measuring on. */
const LOAD_SECONDS = 600;
const SIDES = ["inbound", "outbound"] as const;

function resident(pid: number): number {
  return residentBytes(pid) / (1 << 20);
}

/** Measures a pair that has carried nothing yet. */
export async function measureStreams(
  { name, pair }: Subject,
  side: SideName,
): Promise<StreamMemory> {
  const { pid } = pair[side];
  await pause(IDLE_MS);
  const idleMb = resident(pid);
  try {
    // Memory that the first connections bring in stays and is not theirs.
    close(await openStreams(pair.outbound.port, WARM_CONNECTIONS));
    await pause(SETTLE_MS);
    const before = resident(pid);
    const open = await openStreams(pair.outbound.port, CONNECTIONS);
    await pause(SETTLE_MS);
    const after = resident(pid);
    const lost = open.filter(({ destroyed }) => destroyed).length;
    close(open);
    if (lost > 0) throw new Error(`${lost} connections were lost`);
    const kbPerConnection = (after - before) * 1024 / CONNECTIONS;
    return { pair: name, side, idleMb, kbPerConnection };
  } catch (error) {
    const failed = error instanceof Error ? error.message : String(error);
    return { pair: name, side, idleMb, kbPerConnection: undefined, failed };
  }
}

/**
 * Measures a pair that has carried nothing yet: over one protocol, then the sizes when it is quiet
 * again.
 */
export async function measureFlat(
  { name, pair }: Subject,
  protocol: "http" | "http2",
): Promise<FlatMemory[]> {
  const look = () => SIDES.map((side) => resident(pair[side].pid));
  await pause(IDLE_MS);
  const idle = look();
  const sizes: number[][] = [];
  let done = 0;
  for (const requests of REQUESTS) {
    const shape = protocol === "http" ? ["--h1", "-c", "16"] : ["-c", "8", "-m", "16"];
    const url = `http://${HOST}:${pair.outbound.port}/tiny`;
    const { errors, kinds } = await runH2load(
      [...shape, "-t", "1", "-n", String(requests - done), url],
      LOAD_SECONDS,
    );
    if (errors > 0) throw new Error(`errors of ${name}: ${kinds}`);
    done = requests;
    await pause(PAUSE_MS);
    sizes.push(look());
  }
  await pause(QUIET_MS - PAUSE_MS);
  const later = look();
  return SIDES.map((side, index) => ({
    pair: name,
    side,
    what: protocol === "http" ? "HTTP/1.1" : "HTTP/2",
    idleMb: idle[index] ?? NaN,
    sizesMb: sizes.map((both) => both[index] ?? NaN),
    laterMb: later[index] ?? NaN,
  }));
}

/** Preface, SETTINGS, and a GET of `/hold`. */
const OPEN_STREAM = Buffer.from([
  ...Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  0,
  0,
  0,
  4,
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  13,
  1,
  5,
  0,
  0,
  0,
  1,
  0x82,
  0x86,
  0x04,
  5,
  ...Buffer.from("/hold"),
  0x01,
  2,
  ...Buffer.from("db"),
]);

const SETTINGS_ACK = Uint8Array.of(0, 0, 0, 4, 1, 0, 0, 0, 0);

/** Connections of which each has been greeted. */
async function openStreams(port: number, count: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  const one = () =>
    new Promise<void>((resolve, reject) => {
      const socket = connect({ host: HOST, port, noDelay: true });
      sockets.push(socket);
      socket.setTimeout(20_000, () => socket.destroy(new Error("no greeting in 20 s")));
      socket.on("connect", () => socket.write(OPEN_STREAM));
      socket.once("data", () => {
        socket.on("data", () => {});
        socket.write(SETTINGS_ACK);
        socket.setTimeout(0);
        resolve();
      });
      socket.on("error", reject);
      socket.on("close", () => reject(new Error("the connection was closed")));
    });
  try {
    for (let opened = 0; opened < count; opened += AT_ONCE) {
      await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - opened) }, one));
    }
  } catch (error) {
    close(sockets);
    throw error;
  }
  return sockets;
}

function close(sockets: readonly Socket[]): void {
  for (const socket of sockets) socket.destroy();
}
