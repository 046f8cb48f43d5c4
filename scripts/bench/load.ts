/**
 * Loads that the benchmark puts on a pair. wrk makes the requests; what was really answered is read
 * from its report and, where a window inside the run counts, from the backend.
 *
 * @module
 */

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { peer } from "../peers.ts";
import { HOST, type Site } from "./site.ts";

export interface LoadOptions {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  readonly path: "/small" | "/big";
  /** Another connection for each request. */
  readonly close?: boolean;
}

export interface LoadReport {
  readonly requests: number;
  readonly bytes: number;
  /** Failed connections, reads, writes, late answers and wrong statuses. */
  readonly errors: number;
  /** The errors by kind: `read 3, timeout 1`. */
  readonly kinds: string;
}

const SCRIPT = `done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("BENCH %d %d connect %d read %d write %d timeout %d status %d\\n",
    summary.requests, summary.bytes, e.connect, e.read, e.write, e.timeout, e.status))
end
`;

/** wrk at work. */
export interface Load {
  /** Ends it now; what it saw. Fails where it could not run. */
  stop(): Promise<LoadReport>;
  /** Waits for its end. */
  readonly report: Promise<LoadReport>;
}

/** Lasts `seconds` unless it is stopped. */
export function startLoad(site: Site, options: LoadOptions): Load {
  const script = join(site.directory, "report.lua");
  writeFileSync(script, SCRIPT);
  const args = [
    ...["-t", "1", "-c", String(options.connections), "-d", `${options.seconds}s`],
    ...["--timeout", "20s", "-s", script],
    ...(options.close ? ["-H", "Connection: close"] : []),
    `http://${HOST}:${options.port}${options.path}`,
  ];
  const child = spawn(peer("wrk"), args, { stdio: ["ignore", "pipe", "pipe"] });
  const report = new Promise<LoadReport>((resolve, reject) => {
    const limit = setTimeout(() => child.kill("SIGKILL"), (options.seconds + 30) * 1_000);
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => output += chunk);
    }
    child.on("error", reject);
    child.on("close", () => {
      clearTimeout(limit);
      const found = /^BENCH (\d+) (\d+) (.+)$/m.exec(output);
      if (!found) return reject(new Error(`Cannot read wrk's report: ${output.slice(-500)}`));
      const [requests = 0, bytes = 0] = found.slice(1).map(Number);
      const kinds = [...(found[3] ?? "").matchAll(/(\w+) ([1-9]\d*)/g)];
      const errors = kinds.reduce((sum, [, , count]) => sum + Number(count), 0);
      resolve({ requests, bytes, errors, kinds: kinds.map(([text]) => text).join(", ") });
    });
  });
  // Who waits for it later hears of its failure then.
  report.catch(() => {});
  return {
    report,
    stop() {
      // wrk reports and ends in order.
      child.kill("SIGINT");
      return report;
    },
  };
}

/** Connections that have each been answered once and stay open. */
export interface OpenConnections {
  readonly count: number;
  /** Those that ended by themselves. */
  readonly lost: () => number;
  close(): void;
}

const AT_ONCE = 64;
const REQUEST = "GET /small HTTP/1.1\r\nHost: db\r\nUser-Agent: postern-bench\r\n\r\n";

export async function openConnections(port: number, count: number): Promise<OpenConnections> {
  const sockets: Socket[] = [];
  let lost = 0;
  let closing = false;
  const one = () =>
    new Promise<void>((resolve, reject) => {
      const socket = connect({ host: HOST, port, noDelay: true });
      sockets.push(socket);
      let answer = "";
      socket.setEncoding("utf8");
      socket.setTimeout(20_000, () => socket.destroy(new Error("no answer in 20 s")));
      socket.on("connect", () => socket.write(REQUEST));
      socket.on("data", (chunk) => {
        answer += chunk;
        if (!answer.endsWith("x".repeat(100))) return;
        socket.setTimeout(0);
        resolve();
      });
      socket.on("error", reject);
      socket.on("close", () => {
        if (!closing) lost++;
        reject(new Error("the connection was closed"));
      });
    });
  const close = () => {
    closing = true;
    for (const socket of sockets) socket.destroy();
  };
  try {
    for (let opened = 0; opened < count; opened += AT_ONCE) {
      await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - opened) }, one));
    }
  } catch (error) {
    close();
    throw error;
  }
  return { count, lost: () => lost, close };
}
