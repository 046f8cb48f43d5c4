/** The cost of a server process, as the system counts it. @module */

import { readFile } from "node:fs/promises";

interface ServerPlace {
  readonly pid: number;
  readonly host: string;
  readonly httpPort: number;
  readonly grpcPort: number;
}

/** `79 HTTPS, 79 gRPC, 169 MiB, 1.4 s of CPU` */
export async function serverFacts({ pid, host, httpPort, grpcPort }: ServerPlace): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const memory = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const columns = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const cpu = (Number(columns[11]) + Number(columns[12])) / 100;
  const bytes = host.split(".").reverse().map((byte) => hex(Number(byte), 2)).join("");
  const sockets = (await readFile("/proc/net/tcp", "utf8")).split("\n")
    .map((line) => line.trim().split(/\s+/));
  // Columns: slot, local address, remote address, state (01: established).
  const open = (port: number) =>
    sockets.filter((columns) => columns[1] === `${bytes}:${hex(port, 4)}` && columns[3] === "01")
      .length;
  return `${open(httpPort)} HTTPS, ${open(grpcPort)} gRPC, ${Math.round(memory)} MiB, ` +
    `${cpu.toFixed(1)} s of CPU`;
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, "0");
}
