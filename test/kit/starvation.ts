/**
 * How long processes were ready to run and got no processor: what a machine that does something else
 * adds to a time, and what no bound on that time is about. Linux.
 *
 * @module
 */

import { readdir, readFile } from "node:fs/promises";
import process from "node:process";

/** Of a process: through so many of its threads one thing may go. */
const THREADS = 4;

/** By thread, in milliseconds. */
type Waits = ReadonlyMap<string, number>;

export class Starvation {
  readonly #before: ReadonlyMap<number, Waits>;
  readonly #stolenMs: number;

  private constructor(before: ReadonlyMap<number, Waits>, stolenMs: number) {
    this.#before = before;
    this.#stolenMs = stolenMs;
  }

  /** Of these processes and of this one, from now on. */
  static async begin(...others: readonly number[]): Promise<Starvation> {
    return new Starvation(await waitsOf([process.pid, ...others]), await stolenMs());
  }

  /**
   * Since it began. What happens goes from thread to thread, any of which may have waited: what those
   * waited that waited most is added up, and what a machine below this one took from all of them.
   */
  async ms(): Promise<number> {
    let sum = await stolenMs() - this.#stolenMs;
    for (const [pid, now] of await waitsOf([...this.#before.keys()])) {
      const before = this.#before.get(pid);
      const waits = [...now].map(([thread, ms]) => ms - (before?.get(thread) ?? 0));
      sum += waits.sort((a, b) => b - a).slice(0, THREADS).reduce((all, ms) => all + ms, 0);
    }
    return sum;
  }
}

/** By process: how long each of its threads was ready to run and waited, ever. */
async function waitsOf(pids: readonly number[]): Promise<ReadonlyMap<number, Waits>> {
  return new Map(
    await Promise.all(pids.map(async (pid) => {
      const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
      const waits = await Promise.all(threads.map(async (thread) => {
        // A thread may end meanwhile.
        const stat = await readFile(`/proc/${pid}/task/${thread}/schedstat`, "utf8").catch(() =>
          ""
        );
        return [thread, Number(stat.split(" ")[1] ?? 0) / 1e6] as const;
      }));
      return [pid, new Map(waits)] as const;
    })),
  );
}

/** Taken from this machine's processors by the one that it runs on. */
async function stolenMs(): Promise<number> {
  const stat = await readFile("/proc/stat", "utf8");
  // After "cpu": user, nice, system, idle, iowait, irq, softirq, steal, in ticks of 10 ms.
  return Number(stat.match(/^cpu +(?:\d+ ){7}(\d+)/m)?.[1] ?? 0) * 10;
}
