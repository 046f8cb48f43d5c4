/**
 * Loads that the benchmark puts on a pair. wrk makes the requests, h2load those over HTTP/2; what was
 * really answered is read from their reports and, where a window inside the run counts, from the backend.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { peer } from "../peers.ts";
import { HOST, type Site } from "./site.ts";

export interface LoadOptions {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  readonly path: "/small" | "/tiny" | "/mb" | "/big" | "/grpc";
  /** Another connection for each request. */
  readonly close?: boolean;
  /** Over HTTP/2, with so many requests at a time on each connection. */
  readonly streams?: number;
}

interface LoadReport {
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

/** wrk or h2load at work. */
export interface Load {
  /** Ends it, wrk at once and h2load when its time is over; what it saw. Fails where it could not run. */
  stop(): Promise<LoadReport>;
  /** Waits for its end. */
  readonly report: Promise<LoadReport>;
}

/** Lasts `seconds` unless it is stopped. */
export function startLoad(site: Site, options: LoadOptions): Load {
  return options.streams === undefined ? startWrk(site, options) : startH2load(site, options);
}

function startWrk(site: Site, options: LoadOptions): Load {
  const script = join(site.directory, "report.lua");
  writeFileSync(script, SCRIPT);
  const args = [
    ...["-t", "1", "-c", String(options.connections), "-d", `${options.seconds}s`],
    ...["--timeout", "20s", "-s", script],
    ...(options.close ? ["-H", "Connection: close"] : []),
    `http://${HOST}:${options.port}${options.path}`,
  ];
  const { child, report } = run(peer("wrk"), args, options.seconds, readWrk);
  return {
    report,
    stop() {
      // wrk reports and ends in order.
      child.kill("SIGINT");
      return report;
    },
  };
}

function readWrk(output: string): LoadReport | undefined {
  const found = /^BENCH (\d+) (\d+) (.+)$/m.exec(output);
  if (!found) return undefined;
  const [requests = 0, bytes = 0] = found.slice(1).map(Number);
  return { requests, bytes, ...errorsOf([...(found[3] ?? "").matchAll(/(\w+) ([1-9]\d*)/g)]) };
}

function startH2load(site: Site, options: LoadOptions): Load {
  const grpc = options.path === "/grpc";
  const args = [
    ...["-t", "1", "-c", String(options.connections), "-m", String(options.streams)],
    ...["-D", String(options.seconds)],
    ...(grpc ? ["-d", join(site.directory, "grpc")] : []),
    ...(grpc ? ["-H", "content-type: application/grpc", "-H", "te: trailers"] : []),
    `http://${HOST}:${options.port}${options.path}`,
  ];
  const report = runH2load(args, options.seconds);
  return { report, stop: () => report };
}

/** The figures of h2load; it is ended when it takes half a minute longer than `seconds`. */
export function runH2load(args: readonly string[], seconds: number): Promise<LoadReport> {
  return run(peer("h2load"), args, seconds, readH2load).report;
}

function readH2load(output: string): LoadReport | undefined {
  const [, requests] = /^requests: .* (\d+) succeeded/m.exec(output) ?? [];
  const [, bytes] = /^traffic: .*\((\d+)\) total/m.exec(output) ?? [];
  if (requests === undefined || bytes === undefined) return undefined;
  const line = /^requests: .*$/m.exec(output)?.[0] ?? "";
  const others = /^status codes: .*$/m.exec(output)?.[0].replace(/\d+ 2xx/, "") ?? "";
  const kinds = [...`${line} ${others}`.matchAll(/([1-9]\d*) (failed|errored|timeout|\dxx)/g)];
  return {
    requests: Number(requests),
    bytes: Number(bytes),
    ...errorsOf(kinds.map(([, count = "", kind = ""]) => [`${kind} ${count}`, kind, count])),
  };
}

/** `found`: the words, the kind, the count. */
function errorsOf(
  found: readonly (readonly string[])[],
): { readonly errors: number; readonly kinds: string } {
  const errors = found.reduce((sum, [, , count]) => sum + Number(count), 0);
  return { errors, kinds: found.map(([text]) => text).join(", ") };
}

function run(
  program: string,
  args: readonly string[],
  seconds: number,
  read: (output: string) => LoadReport | undefined,
): { readonly child: ChildProcess; readonly report: Promise<LoadReport> } {
  const child = spawn(program, [...args], { stdio: ["ignore", "pipe", "pipe"] });
  const report = new Promise<LoadReport>((resolve, reject) => {
    const limit = setTimeout(() => child.kill("SIGKILL"), (seconds + 30) * 1_000);
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => output += chunk);
    }
    child.on("error", reject);
    child.on("close", () => {
      clearTimeout(limit);
      const found = read(output);
      if (found) resolve(found);
      else reject(new Error(`Cannot read the report of ${program}: ${output.slice(-500)}`));
    });
  });
  // A caller that awaits `report` later gets its failure then.
  report.catch(() => {});
  return { child, report };
}

/** Connections that have each been answered once and stay open. */
interface OpenConnections {
  readonly count: number;
  /** Connections that ended by themselves. */
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
