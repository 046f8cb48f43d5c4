/**
 * Postern beside Envoy, nginx, HAProxy and Consul's built-in proxy: sidecar pairs over mTLS on loopback, one
 * worker each, measured in one run. Prints tables and writes `dist/bench.json`.
 *
 *     deno task bench                                  everything, about twenty minutes
 *     deno task bench -only kept_alive,new -peers postern,envoy
 *     deno task bench -rounds 1 -seconds 1             a glance
 *     deno task bench -peers postern -before PATH      beside the executable of another build
 *
 * Runs `dist/postern` where there is one, else the sources (`POSTERN_BIN`, `POSTERN_ENGINE`). Where the
 * machine does not count instructions they are estimated from time on the processor: see
 * `bench/targets.ts`.
 *
 * @module
 */

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { posternCommand } from "../test/kit/process/postern.ts";
import { measureCell, type Measured, resumedCount, type Subject } from "./bench/cell.ts";
import { countsInstructions } from "./bench/counters.ts";
import { HTTP_PARTS, type HttpPart, openHttpBench } from "./bench/http_parts.ts";
import { measureFlatness, measureMemory, type MemoryCost } from "./bench/memory.ts";
import { openPairs, type Pairs } from "./bench/open_pairs.ts";
import {
  callsLines,
  costTable,
  ENVOY,
  flatnessTable,
  memoryTable,
  POSTERN,
  type ScaleRow,
  scaleTable,
  YARDSTICK,
} from "./bench/report.ts";
import type { Pair } from "./bench/pairs.ts";
import { createSite, type Site } from "./bench/site.ts";
import { TARGETS } from "./bench/targets.ts";
import { isExecutable } from "./cache.ts";
import { ensurePeers } from "./peers.ts";

const L4_PARTS = ["kept_alive", "new", "resumed", "bulk", "memory", "flat", "scale"] as const;
const PARTS = [...L4_PARTS, ...HTTP_PARTS] as const;
const PEERS = ["postern", "envoy", "nginx", "haproxy", "consul"] as const;
type L4Part = typeof L4_PARTS[number];
type Part = typeof PARTS[number];
type Peer = typeof PEERS[number];

interface Arguments {
  readonly only: readonly Part[];
  readonly peers: readonly Peer[];
  readonly rounds: number;
  readonly seconds: number;
  /** The executable of another build. */
  readonly before?: string;
}

const USAGE = `Usage: deno task bench [-only ${PARTS.join(",")}] [-peers ${PEERS.join(",")}]
                       [-rounds N] [-seconds N] [-before PATH]`;

function readArguments(argv: readonly string[]): Arguments | string {
  let read: Arguments = { only: PARTS, peers: PEERS, rounds: 2, seconds: 2 };
  for (let index = 0; index < argv.length; index += 2) {
    const name = (argv[index] ?? "").replace(/^--?/, "");
    const value = argv[index + 1] ?? "";
    if (name === "only") {
      const only = PARTS.filter((part) => value.split(",").includes(part));
      if (only.length !== value.split(",").length) return `Cannot take -only ${value}`;
      read = { ...read, only };
    } else if (name === "peers") {
      const peers = PEERS.filter((peer) => value.split(",").includes(peer));
      if (peers.length !== value.split(",").length) return `Cannot take -peers ${value}`;
      read = { ...read, peers };
    } else if (name === "before") {
      if (!isExecutable(value)) return `Cannot take -before ${value}: no executable`;
      read = { ...read, before: resolve(value) };
    } else if (name === "rounds" || name === "seconds") {
      const count = Number(value);
      if (!Number.isInteger(count) || count < 1) return `Cannot take -${name} ${value}`;
      read = { ...read, [name]: count };
    } else return `Cannot take ${argv[index]}`;
  }
  return read;
}

class Bench {
  readonly #site: Site;
  readonly #pairs: Pairs;
  readonly #arguments: Arguments;
  readonly #instructions: boolean;
  readonly results: Record<string, unknown> = {};

  constructor(
    site: Site,
    pairs: Pairs,
    options: { readonly arguments: Arguments; readonly instructions: boolean },
  ) {
    this.#site = site;
    this.#pairs = pairs;
    this.#arguments = options.arguments;
    this.#instructions = options.instructions;
    this.results.instructions = options.instructions;
  }

  async run(part: L4Part): Promise<void> {
    switch (part) {
      case "kept_alive":
        return await this.#cost(part, "Kept-alive requests, 16 connections (per request)", {
          subjects: await this.#pairs.usual(),
          load: { connections: 16, path: "/small" },
        });
      case "new":
        return await this.#cost(part, "New connections, full handshake (per connection)", {
          subjects: await this.#pairs.full(),
          load: { connections: 16, path: "/small", close: true },
          verify: noneResumed,
        });
      case "resumed":
        return await this.#cost(part, "New connections, resumed (per connection)", {
          subjects: await this.#pairs.resuming(),
          load: { connections: 16, path: "/small", close: true },
          verify: someResumed,
        });
      case "bulk":
        return await this.#cost(part, "Bulk, 4 connections (per GB)", {
          subjects: await this.#pairs.usual(),
          load: { connections: 4, path: "/big" },
          unit: "gigabyte",
        });
      case "memory":
        return await this.#memory();
      case "flat":
        return await this.#flat();
      case "scale":
        return await this.#scale();
    }
  }

  async #cost(
    part: keyof typeof TARGETS,
    title: string,
    options: {
      readonly subjects: readonly Subject[];
      readonly load: { connections: number; path: "/small" | "/big"; close?: boolean };
      readonly unit?: "request" | "gigabyte";
      readonly verify?: (subject: Subject) => Promise<void>;
    },
  ): Promise<void> {
    const { subjects, unit = "request", ...rest } = options;
    const measured = await this.#measure(subjects, { unit, ...rest });
    this.results[part] = measured;
    print(costTable(title, measured, { target: TARGETS[part], unit: part }));
    print(callsLines(measured));
  }

  async #measure(
    subjects: readonly Subject[],
    options: {
      readonly load: { connections: number; path: "/small" | "/big"; close?: boolean };
      readonly unit: "request" | "gigabyte";
      readonly verify?: (subject: Subject) => Promise<void>;
    },
  ): Promise<Measured[]> {
    const { rounds, seconds } = this.#arguments;
    const [site, instructions] = [this.#site, this.#instructions];
    return await measureCell(subjects, { site, instructions, rounds, seconds, ...options });
  }

  async #memory(): Promise<void> {
    const measured: MemoryCost[] = [];
    for await (const pair of this.#pairs.fresh()) {
      measured.push(await measureMemory(this.#site, pair, 4_000));
      await pair.stop();
    }
    this.results.memory = measured;
    print(memoryTable(measured));
  }

  async #flat(): Promise<void> {
    const pair = await this.#pairs.postern();
    const flatness = await measureFlatness(this.#site, pair, { connections: 100_000, rounds: 10 });
    this.results.flat = flatness;
    print(flatnessTable(flatness));
  }

  async #scale(): Promise<void> {
    const counts = [1, 50, 200];
    const subjects: Subject[] = [];
    for (const count of counts) subjects.push(toSubject(await this.#pairs.postern(count)));
    // In turns, for a machine that gets slower must not look like growth.
    const rows = await this.#scaleRows(subjects, 16);
    const byUpstreams = rows.map((row, index) => ({
      ...row,
      what: `${counts[index]} upstreams`,
    }));
    print(scaleTable("Requests by number of upstreams declared (per request)", byUpstreams));
    const usual = (await this.#pairs.usual()).filter(({ name }) =>
      [POSTERN, ENVOY, YARDSTICK].includes(name)
    );
    const byConnections: ScaleRow[] = [];
    for (const connections of [10, 1_000, 4_000]) {
      byConnections.push(...await this.#scaleRows(usual, connections));
    }
    print(scaleTable("Requests by number of open connections (per request)", byConnections));
    this.results.scale = [...byUpstreams, ...byConnections];
  }

  async #scaleRows(subjects: readonly Subject[], connections: number): Promise<ScaleRow[]> {
    const what = `${connections} connections`;
    const load = { connections, path: "/small" } as const;
    const measured = await this.#measure(subjects, { unit: "request", load });
    return measured.map((one) => ({ what, measured: one }));
  }
}

function toSubject(pair: Pair): Subject {
  return { name: pair.name, pair, sides: ["inbound", "outbound"] };
}

async function noneResumed(subject: Subject): Promise<void> {
  const resumed = await resumedBy(subject);
  if (resumed > 0) throw new Error(`${resumed} handshakes were resumed`);
}

async function someResumed(subject: Subject): Promise<void> {
  if (subject.name.startsWith(POSTERN) && await resumedBy(subject) < 100) {
    throw new Error("handshakes were not resumed");
  }
}

async function resumedBy({ pair }: Subject): Promise<number> {
  let sum = 0;
  for (const { adminPort } of [pair.inbound, pair.outbound]) {
    if (adminPort !== undefined) sum += await resumedCount(adminPort);
  }
  return sum;
}

function isHttp(part: Part): part is HttpPart {
  return HTTP_PARTS.some((name) => name === part);
}

function print(text: string): void {
  if (text) console.log(text + (text.startsWith(" ") ? "\n" : ""));
}

async function main(): Promise<number> {
  const read = readArguments(process.argv.slice(2));
  if (typeof read === "string") {
    console.error(`${read}\n${USAGE}`);
    return 2;
  }
  const programs = ["wrk", "h2load", "nginx", "strace", "perf"];
  await ensurePeers([...programs, ...read.peers.filter((peer) => peer !== "postern")]);
  const instructions = countsInstructions();
  const [command = "", ...words] = posternCommand();
  const version = execFileSync(command, [...words, "version"], { encoding: "utf8" });
  console.log(`${version.trim()}: ${[command, ...words].join(" ")}`);
  if (!instructions) {
    console.log(
      "This machine does not count instructions (perf stat). Postern's are estimated from its time on\n" +
        "the processor beside that of a bare relay on Bun whose instructions are known: they are\n" +
        "right within ten per cent or so, less on a busy machine.",
    );
  }
  console.log();
  const site = await createSite();
  const pairs = openPairs(site, read.peers, {
    yardstick: !instructions,
    ...(read.before === undefined ? {} : { before: read.before }),
  });
  const bench = new Bench(site, pairs, { arguments: read, instructions });
  const http = openHttpBench({ site, instructions, ...read }, read.peers, read.before);
  try {
    for (const part of read.only) {
      if (isHttp(part)) bench.results[part] = await http.run(part);
      else await bench.run(part);
    }
    const file = join(dirname(fileURLToPath(import.meta.url)), "..", "dist", "bench.json");
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${JSON.stringify(bench.results, undefined, 2)}\n`);
    console.log(`Written: dist/bench.json`);
  } finally {
    await http.close();
    await pairs.close();
    await site.close();
  }
  return 0;
}

process.exit(await main());
