/** The processor time of this process, whatever else the machine does meanwhile. @module */

import process from "node:process";

/** Milliseconds of processor time, all threads of this process together. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
