/** The memory and descriptors of a process, from /proc. Linux. @module */

import { readdirSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";

/** Resident memory in bytes. */
export async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(status.match(/^VmRSS:\s+(\d+) kB/m)?.[1]) * 1024;
}

export async function openFiles(pid: number): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length;
}

/** Processor time used so far, in milliseconds. */
export async function processorMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  // The fields after the name in brackets: state is field 3, utime 14, stime 15, in ticks of 10 ms.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** The threads of a process with their "nice" values: fields 2 and 19 of `stat` (proc(5)). */
export function threadsOf(
  pid: number,
): readonly { readonly id: number; readonly name: string; readonly nice: number }[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((id) => {
    const text = statOf(`/proc/${pid}/task/${id}/stat`);
    // The name may hold spaces and parentheses.
    const [from, to] = [text.indexOf("("), text.lastIndexOf(")")];
    const nice = Number(text.slice(to + 2).split(" ")[16]);
    return text === "" ? [] : [{ id: Number(id), name: text.slice(from + 1, to), nice }];
  });
}

/** `""`: the thread has ended. */
function statOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
