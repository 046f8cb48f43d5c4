/**
 * The parts of a benchmark that are about HTTP.
 *
 * @module
 */

import { connect, type Socket } from "node:net";
import { pause } from "../../test/kit/process.ts";
import {
  type CellOptions,
  measureCell,
  type Measured,
  type SideName,
  type Subject,
} from "./cell.ts";
import { residentBytes } from "./counters.ts";
import { openHttpPairs, TCP } from "./http_pairs.ts";
import {
  HTTP_TARGETS,
  httpTable,
  type HttpTarget,
  type StreamMemory,
  streamMemoryTable,
} from "./http_report.ts";
import { POSTERN } from "./report.ts";
import { HOST } from "./site.ts";

export const HTTP_PARTS = [
  ...["http1", "http2", "grpc", "http_new", "http_bulk", "http2_bulk", "http2_memory"] as const,
];
export type HttpPart = typeof HTTP_PARTS[number];

export interface HttpBench {
  /** Runs a part; prints its table and gives what it measured. */
  run(part: HttpPart): Promise<unknown>;
  close(): Promise<void>;
}

type Settings = Pick<CellOptions, "site" | "instructions" | "rounds" | "seconds">;

const SHARED = { connections: 8, streams: 16 } as const;

export function openHttpBench(settings: Settings, peers: readonly string[]): HttpBench {
  const pairs = openHttpPairs(settings.site, peers);
  const cell = async (
    title: string,
    target: HttpTarget,
    options: Pick<CellOptions, "load"> & {
      readonly subjects: readonly Subject[];
      readonly unit?: CellOptions["unit"];
    },
  ): Promise<Measured[]> => {
    const { subjects, load, unit = "request" } = options;
    const measured = await measureCell(subjects, { ...settings, load, unit, pooled: true });
    console.log(`${httpTable(title, measured, { target, unit })}\n`);
    return measured;
  };
  const withTcp = async (subjects: readonly Subject[]) => [...subjects, await pairs.plain()];
  const run: Readonly<Record<HttpPart, () => Promise<unknown>>> = {
    http1: async () =>
      await cell("HTTP/1.1, kept-alive requests, 16 connections", HTTP_TARGETS.http1, {
        subjects: await pairs.of("http"),
        load: { connections: 16, path: "/tiny" },
      }),
    http2: async () =>
      await cell("HTTP/2, 8 connections of 16 streams", HTTP_TARGETS.http2, {
        subjects: await pairs.of("http2"),
        load: { ...SHARED, path: "/tiny" },
      }),
    grpc: async () =>
      await cell("gRPC, unary, 8 connections of 16 streams", HTTP_TARGETS.grpc, {
        subjects: await pairs.of("grpc"),
        load: { ...SHARED, path: "/grpc" },
      }),
    http_new: async () =>
      await cell(
        "A new connection with one HTTP/1.1 request, full handshake",
        HTTP_TARGETS.http_new,
        {
          subjects: [
            await pairs.behindRelay("http", POSTERN),
            await pairs.behindRelay("tcp", TCP),
            ...(peers.includes("envoy") ? [await pairs.envoyBehindRelay("http")] : []),
          ],
          load: { connections: 16, path: "/tiny", close: true },
        },
      ),
    http_bulk: async () =>
      await cell("HTTP/1.1, bodies of 1 MB, 4 connections", HTTP_TARGETS.http_bulk, {
        subjects: await withTcp(await pairs.of("http")),
        load: { connections: 4, path: "/mb" },
        unit: "gigabyte",
      }),
    http2_bulk: async () => {
      const own = { connections: 4, path: "/mb" } as const;
      const over = { ...settings, unit: "gigabyte", pooled: true } as const;
      const measured = [
        ...await measureCell(await pairs.of("http2"), { ...over, load: { ...own, streams: 4 } }),
        ...await measureCell([await pairs.plain()], { ...over, load: own }),
      ];
      const title = "HTTP/2, bodies of 1 MB, 4 connections of 4 streams; tcp: 4 of HTTP/1.1";
      const target = HTTP_TARGETS.http2_bulk;
      console.log(`${httpTable(title, measured, { target, unit: "gigabyte" })}\n`);
      return measured;
    },
    http2_memory: async () => {
      const measured: StreamMemory[] = [];
      for (const subject of await pairs.of("http2")) {
        measured.push(await memoryOf(subject, "outbound"));
      }
      if (peers.includes("postern")) {
        measured.push(await memoryOf(await pairs.behindRelay("http2", POSTERN), "inbound"));
      }
      if (peers.includes("envoy")) {
        measured.push(await memoryOf(await pairs.envoyBehindRelay("http2"), "inbound"));
      }
      console.log(`${streamMemoryTable(measured, CONNECTIONS)}\n`);
      return measured;
    },
  };
  return { run: (part) => run[part](), close: () => pairs.close() };
}

const CONNECTIONS = 1_000;
const WARM_CONNECTIONS = 100;
const AT_ONCE = 50;
/** Collectors get this long to give back what is no longer used. */
const SETTLE_MS = 2_000;
/** Postern gives back what its start needed a few seconds after it. */
const IDLE_MS = 5_000;

async function memoryOf({ name, pair }: Subject, side: SideName): Promise<StreamMemory> {
  const { pid } = pair[side];
  await pause(IDLE_MS);
  const idleMb = residentBytes(pid) / (1 << 20);
  try {
    // What the first connections bring in stays and is not theirs.
    close(await openStreams(pair.outbound.port, WARM_CONNECTIONS));
    await pause(SETTLE_MS);
    const before = residentBytes(pid);
    const open = await openStreams(pair.outbound.port, CONNECTIONS);
    await pause(SETTLE_MS);
    const after = residentBytes(pid);
    const lost = open.filter(({ destroyed }) => destroyed).length;
    close(open);
    if (lost > 0) throw new Error(`${lost} connections were lost`);
    const kbPerConnection = (after - before) / 1024 / CONNECTIONS;
    return { pair: name, side, idleMb, kbPerConnection };
  } catch (error) {
    const failed = error instanceof Error ? error.message : String(error);
    return { pair: name, side, idleMb, kbPerConnection: undefined, failed };
  }
}

/** Preface, SETTINGS, and a GET of `/hold`. */
const OPEN_STREAM = Buffer.from([
  ...Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  ...[0, 0, 0, 4, 0, 0, 0, 0, 0],
  ...[0, 0, 13, 1, 5, 0, 0, 0, 1],
  ...[0x82, 0x86, 0x04, 5, ...Buffer.from("/hold"), 0x01, 2, ...Buffer.from("db")],
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
