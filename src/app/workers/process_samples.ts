/** Metrics of the process under Prometheus' standard names, and of the heaps. Read when asked. @module */

import { readdirSync, readFileSync, statSync } from "node:fs";
import process from "node:process";
import type { Labels, Sample } from "../../base/mod.ts";

/** Bytes of the objects of this thread. */
export function heapBytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Every thread has a heap; the values of all threads add up. `worker`: the number of this data worker. */
export function heapSamples(worker?: number): readonly Sample[] {
  const { heapUsed, heapTotal, external } = process.memoryUsage();
  const help = "Bytes of objects of a data worker; those of plugins are not told apart";
  return [
    ...worker === undefined ? [] : [{
      ...gauge("worker_heap_used_bytes", help, heapUsed + external),
      labels: { worker: `${worker}` },
    }],
    gauge("heap_used_bytes", "Bytes of objects of all threads", heapUsed + external),
    gauge("heap_size_bytes", "Bytes that the heaps of all threads reserve", heapTotal + external),
  ];
}

interface ProcessFacts {
  /** Limit of open files; `undefined`: the system knows none. */
  readonly openFilesLimit: number | undefined;
  readonly build: Labels;
}

/** What the system does not tell is left out. */
export function processSamples({ openFilesLimit, build }: ProcessFacts): readonly Sample[] {
  const { user, system } = process.cpuUsage();
  const status = readStatus();
  const residentBytes = bytesOf(status, "VmRSS") ?? process.memoryUsage.rss();
  return [
    counter("process_cpu_seconds_total", "Processor time in seconds", (user + system) / 1e6),
    gauge("process_resident_memory_bytes", "Resident memory in bytes", residentBytes),
    ...known("process_virtual_memory_bytes", "Virtual memory in bytes", bytesOf(status, "VmSize")),
    ...known("process_threads", "Threads of the process", fieldOf(status, "Threads")),
    gauge(
      "process_start_time_seconds",
      "Start of the process in seconds since 1970",
      performance.timeOrigin / 1_000,
    ),
    ...known("process_open_fds", "Open file descriptors", openFiles()),
    ...known("process_max_fds", "Limit of open file descriptors", openFilesLimit),
    {
      ...gauge("build_info", "Always 1; version, commit, engine and platform are labels", 1),
      labels: build,
    },
  ];
}

/** Linux alone has it. */
function readStatus(): string {
  try {
    return readFileSync("/proc/self/status", "utf8");
  } catch {
    // Another system, or a sandbox without /proc.
    return "";
  }
}

function bytesOf(status: string, field: string): number | undefined {
  const kibibytes = fieldOf(status, field);
  return kibibytes === undefined ? undefined : kibibytes * 1_024;
}

function fieldOf(status: string, field: string): number | undefined {
  const [, value] = new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(status) ?? [];
  return value === undefined ? undefined : Number(value);
}

function openFiles(): number | undefined {
  try {
    // Since Linux 6.2 the size of the directory is the number of descriptors.
    return statSync("/proc/self/fd").size || readdirSync("/proc/self/fd").length;
  } catch {
    // As above.
    return undefined;
  }
}

function known(name: string, help: string, value: number | undefined): readonly Sample[] {
  return value === undefined ? [] : [gauge(name, help, value)];
}

function gauge(name: string, help: string, value: number): Sample {
  return { name, kind: "gauge", help, labels: {}, value };
}

function counter(name: string, help: string, value: number): Sample {
  return { name, kind: "counter", help, labels: {}, value };
}
