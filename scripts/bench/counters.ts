/**
 * The cost of one process: instructions where the machine counts them, time on the processor always,
 * system calls by `strace`, resident memory. Linux.
 *
 * @module
 */

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../../test/kit/process/process.ts";
import { peer } from "../peers.ts";
import { Program } from "./program.ts";

/** The cost of a process between two moments. */
export interface Cost {
  readonly cpuNs: number;
  /** User and kernel; undefined: this machine has no counter for them. */
  readonly instructions: number | undefined;
}

/** Whether the processor's counters can be read; virtual machines often have none. */
export function countsInstructions(): boolean {
  const events = ["-e", "instructions:u,instructions:k"];
  const { status, stderr } = spawnSync(peer("perf"), ["stat", "-x,", ...events, "true"], {
    encoding: "utf8",
  });
  return status === 0 && /^\d+,,instructions:u/m.test(stderr) &&
    /^\d+,,instructions:k/m.test(stderr);
}

/** Counting on several processes at once, from {@link startCounting} to `stop`. */
interface Counting {
  /** The costs in the order of the process ids. */
  stop(): Promise<Cost[]>;
}

let files = 0;

export async function startCounting(
  pids: readonly number[],
  options: { readonly directory: string; readonly instructions: boolean },
): Promise<Counting> {
  const perfs = options.instructions ? pids.map((pid) => startPerf(pid, options.directory)) : [];
  if (perfs.length > 0) await new Promise((resolve) => setTimeout(resolve, PERF_ATTACH_MS));
  const before = pids.map(threadTimes);
  return {
    async stop() {
      const after = pids.map(threadTimes);
      await Promise.all(perfs.map((perf) => perf.stop("SIGINT")));
      return pids.map((_pid, index) => ({
        cpuNs: spent(before[index] ?? new Map(), after[index] ?? new Map()),
        instructions: perfs[index] && readPerf(perfs[index].output),
      }));
    },
  };
}

/** perf prints nothing when it has attached; this is ten times what it takes. */
const PERF_ATTACH_MS = 200;

function startPerf(pid: number, directory: string): Program {
  const events = ["-e", "instructions:u,instructions:k"];
  return new Program(peer("perf"), ["stat", "-x,", ...events, "-p", String(pid)], {
    logFile: join(directory, `perf-${++files}.log`),
  });
}

function readPerf(output: string): number {
  const counts = [...output.matchAll(/^(\d+),,instructions:[uk]/gm)].map(([, count]) =>
    Number(count)
  );
  if (counts.length !== 2) throw new Error(`Cannot read perf's counts: ${output}`);
  return counts.reduce((sum, count) => sum + count, 0);
}

function threadTimes(pid: number): Map<string, number> {
  const times = new Map<string, number>();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      const text = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8");
      times.set(thread, Number(text.split(" ")[0]));
    } catch {
      // The thread ended since it was listed.
    }
  }
  return times;
}

function spent(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): number {
  let sum = 0;
  for (const [thread, time] of after) sum += time - (before.get(thread) ?? 0);
  return sum;
}

/** System calls by name between {@link startTracing} and `stop`. */
interface Tracing {
  stop(): Promise<ReadonlyMap<string, number>[]>;
}

export async function startTracing(
  pids: readonly number[],
  directory: string,
): Promise<Tracing> {
  const traces = pids.map((pid) => {
    const table = join(directory, `strace-${++files}.txt`);
    const args = ["-f", "-c", "-U", "calls,name", "-o", table, "-p", String(pid)];
    const program = new Program(peer("strace"), args, { logFile: `${table}.log` });
    return { program, table };
  });
  for (const { program } of traces) {
    await eventually("strace has attached", () => / attached/.test(program.output), {
      timeoutMs: 5_000,
      everyMs: 20,
    });
  }
  return {
    async stop() {
      await Promise.all(traces.map(({ program }) => program.stop("SIGINT")));
      return traces.map(({ table }) => readTable(readFileSync(table, "utf8")));
    },
  };
}

function readTable(text: string): ReadonlyMap<string, number> {
  const calls = new Map<string, number>();
  for (const [, count, name] of text.matchAll(/^\s*(\d+)\s+(\w+)\s*$/gm)) {
    if (name !== undefined && name !== "total") calls.set(name, Number(count));
  }
  return calls;
}

export function total(calls: ReadonlyMap<string, number>): number {
  return [...calls.values()].reduce((sum, count) => sum + count, 0);
}

/** Resident memory in bytes. */
export function residentBytes(pid: number): number {
  const found = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  if (!found) throw new Error(`Cannot read the memory of process ${pid}`);
  return Number(found[1]) * 1024;
}
