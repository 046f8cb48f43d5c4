/** The parts of a benchmark that are about HTTP. @module */

import { type CellOptions, measureCell, type Measured, type Subject } from "./cell.ts";
import { type FlatMemory, measureFlat, measureStreams, type StreamMemory } from "./http_memory.ts";
import { type Latency, measureLatency } from "./http_latency.ts";
import { openHttpPairs, TCP } from "./http_pairs.ts";
import {
  flatMemoryTable,
  HTTP_TARGETS,
  httpTable,
  type HttpTarget,
  latencyTable,
  PACING,
  streamMemoryTable,
} from "./http_report.ts";
import { POSTERN } from "./report.ts";

export const HTTP_PARTS = [
  ...["http1", "http2", "grpc", "http_new", "http_bulk", "http2_bulk"] as const,
  ...["http_latency", "http2_memory", "http_flat", "plugins1", "plugins2", "routes"] as const,
];
export type HttpPart = typeof HTTP_PARTS[number];

interface HttpBench {
  /** Runs a part; prints its table and gives what it measured. */
  run(part: HttpPart): Promise<unknown>;
  close(): Promise<void>;
}

type Settings = Pick<CellOptions, "site" | "instructions" | "rounds" | "seconds">;

const SHARED = { connections: 8, streams: 16 } as const;

export function openHttpBench(
  settings: Settings,
  peers: readonly string[],
  before?: string,
): HttpBench {
  const pairs = openHttpPairs(settings.site, peers, before);
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
    plugins1: async () =>
      await cell("HTTP/1.1 with plugins, 16 connections", HTTP_TARGETS.plugins1, {
        subjects: await pairs.withPlugins("http"),
        load: { connections: 16, path: "/tiny" },
      }),
    plugins2: async () =>
      await cell("HTTP/2 with plugins, 8 connections of 16 streams", HTTP_TARGETS.plugins2, {
        subjects: await pairs.withPlugins("http2"),
        load: { ...SHARED, path: "/tiny" },
      }),
    routes: async () =>
      await cell("HTTP/1.1 by a router on Consul, the last route takes it", HTTP_TARGETS.routes, {
        subjects: await pairs.withRoutes([1, 100, 1_000]),
        load: { connections: 16, path: "/tiny" },
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
    http_latency: async () => {
      const { rounds, seconds } = settings;
      const paced = ({ name }: Subject) => name === POSTERN || name === PACING;
      const measured: Latency[] = [];
      for (const protocol of ["http", "http2"] as const) {
        const subjects = await pairs.of(protocol);
        const options = { protocol, rounds, seconds, paced };
        measured.push(...await measureLatency(subjects, options));
      }
      console.log(`${latencyTable(measured)}\n`);
      return measured;
    },
    http2_memory: async () => {
      const fresh = openHttpPairs(settings.site, peers, before);
      const measured: StreamMemory[] = [];
      try {
        for (const subject of await fresh.of("http2")) {
          measured.push(await measureStreams(subject, "outbound"));
        }
        if (peers.includes("postern")) {
          const subject = await fresh.behindRelay("http2", POSTERN);
          measured.push(await measureStreams(subject, "inbound"));
        }
        if (peers.includes("envoy")) {
          measured.push(await measureStreams(await fresh.envoyBehindRelay("http2"), "inbound"));
        }
      } finally {
        await fresh.close();
      }
      console.log(`${streamMemoryTable(measured)}\n`);
      return measured;
    },
    http_flat: async () => {
      const fresh = openHttpPairs(settings.site, peers);
      const measured: FlatMemory[] = [];
      try {
        for (const protocol of ["http", "http2"] as const) {
          for (const subject of await fresh.of(protocol)) {
            measured.push(...await measureFlat(subject, protocol));
          }
        }
      } finally {
        await fresh.close();
      }
      console.log(`${flatMemoryTable(measured)}\n`);
      return measured;
    },
  };
  return { run: (part) => run[part](), close: () => pairs.close() };
}
