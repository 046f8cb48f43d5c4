/**
 * How long answers take at a rate that leaves half of the machine free. h2load sends requests at moments
 * of its own, whether or not earlier ones were answered, and writes down when it sent each and how long
 * its answer took. It looks at its clock every ten milliseconds: over HTTP/1.1, where a connection carries
 * one request at a time, there are so many connections that none is due to send two at once.
 *
 * @module
 */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Subject } from "./cell.ts";
import { runH2load } from "./load.ts";
import { HOST } from "./site.ts";

interface LatencyOptions {
  readonly protocol: "http" | "http2";
  readonly rounds: number;
  readonly seconds: number;
  /** Pairs whose saturation sets the rate: half of the lowest. */
  readonly paced: (subject: Subject) => boolean;
}

/** In microseconds, medians of the rounds. */
export interface Latency {
  readonly pair: string;
  readonly protocol: "http" | "http2";
  /** Requests a second when as many are sent as are answered. */
  readonly saturation: number;
  /** Requests a second that were planned here, and those that were made. */
  readonly rate: number;
  readonly sent: number;
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
}

/** Postern's code is compiled by then. */
const WARM_SECONDS = 8;
/** A second, over HTTP/1.1. */
const PER_CONNECTION = 50;
const HTTP2_CONNECTIONS = 8;
/** Connections come up one a millisecond, and are at rest after this. */
const RAMP_US = 1_000_000;

type Sample = Pick<Latency, "sent" | "p50" | "p99" | "p999">;

export async function measureLatency(
  subjects: readonly Subject[],
  options: LatencyOptions,
): Promise<Latency[]> {
  const { protocol, rounds, seconds, paced } = options;
  const saturations = new Map<Subject, number>();
  for (const subject of subjects) {
    saturations.set(subject, await saturate(subject, { protocol, seconds }));
  }
  const pacing = subjects.filter(paced).map((subject) => saturations.get(subject) ?? NaN);
  const rate = Math.round(Math.min(...pacing) / 2);
  const samples = new Map<Subject, Sample[]>(subjects.map((subject) => [subject, []]));
  for (let round = 0; round < rounds; round++) {
    for (const subject of subjects) {
      samples.get(subject)?.push(await sample(subject, rate, options));
    }
  }
  return subjects.map((subject) => {
    const all = samples.get(subject) ?? [];
    const of = (name: keyof Sample) => median(all.map((one) => one[name]));
    return {
      pair: subject.name,
      protocol,
      rate,
      saturation: saturations.get(subject) ?? NaN,
      sent: of("sent"),
      p50: of("p50"),
      p99: of("p99"),
      p999: of("p999"),
    };
  });
}

async function saturate(
  { name, pair }: Subject,
  { protocol, seconds }: Pick<LatencyOptions, "protocol" | "seconds">,
): Promise<number> {
  const shape = protocol === "http"
    ? ["--h1", "-c", "16"]
    : ["-c", String(HTTP2_CONNECTIONS), "-m", "16"];
  const lasts = ["-D", String(seconds), "--warm-up-time", String(WARM_SECONDS)];
  const { requests, errors, kinds } = await runH2load(
    [...shape, "-t", "1", ...lasts, url(pair.outbound.port)],
    WARM_SECONDS + seconds,
  );
  if (errors > 0) throw new Error(`errors of ${name}: ${kinds}`);
  return requests / seconds;
}

async function sample(
  { name, pair }: Subject,
  rate: number,
  { protocol, seconds }: LatencyOptions,
): Promise<Sample> {
  const connections = protocol === "http" ? Math.ceil(rate / PER_CONNECTION) : HTTP2_CONNECTIONS;
  // Not where the credentials are: Postern looks whenever something is written there.
  const directory = mkdtempSync(join(tmpdir(), "postern-latency-"));
  const file = join(directory, "requests.log");
  const lasts = seconds + RAMP_US / 1e6;
  const args = [
    ...protocol === "http" ? ["--h1"] : ["-m", "100"],
    ...["-t", "1", "-c", String(connections), "-r", "1", "--rate-period", "1ms"],
    ...["--rps", String(rate / connections), "-n", String(Math.round(rate * lasts))],
    ...["--log-file", file, url(pair.outbound.port)],
  ];
  try {
    const { errors, kinds } = await runH2load(args, lasts);
    if (errors > 0) throw new Error(`errors of ${name}: ${kinds}`);
    return readLog(readFileSync(file, "utf8"));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Lines of the moment that a request was sent, its status, and how long it took, in microseconds. */
function readLog(text: string): Sample {
  const rows = text.trimEnd().split("\n").map((line) => line.split("\t").map(Number));
  const sentAt = (row: readonly number[]) => row[0] ?? NaN;
  const firstUs = rows.reduce((least, row) => Math.min(least, sentAt(row)), Infinity);
  const lastUs = rows.reduce((most, row) => Math.max(most, sentAt(row)), 0);
  const counted = rows.filter((row) => sentAt(row) - firstUs >= RAMP_US);
  const took = counted.map(([, , us]) => us ?? NaN).sort((a, b) => a - b);
  const at = (share: number) => took[Math.floor(took.length * share)] ?? NaN;
  return {
    sent: counted.length / (lastUs - firstUs - RAMP_US) * 1e6,
    p50: at(0.5),
    p99: at(0.99),
    p999: at(0.999),
  };
}

function url(port: number): string {
  return `http://${HOST}:${port}/tiny`;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}
