/**
 * The applications of the demonstration mesh, and how one sees whether they answer.
 *
 * @module
 */

import { createServer, get, type Server } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { systemClock } from "../../base/mod.ts";

const PROBE_TIMEOUT_MS = 900;

/** A small HTTP service on 127.0.0.1. */
export async function startApp(name: string, port = 0): Promise<Server> {
  let answered = 0;
  const server = createServer((_request, response) => {
    response.setHeader("content-type", "text/plain; charset=utf-8");
    response.setHeader("connection", "close");
    response.end(`hello from ${name}, answer ${++answered}\n`);
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return server;
}

/** Where a listening server listens. */
export function portOf(server: { address(): unknown }): number {
  return (server.address() as { port: number }).port;
}

/** Ports that nobody listens on at the moment. */
export async function freePorts(count: number): Promise<readonly number[]> {
  const servers = await Promise.all(Array.from({ length: count }, async () => {
    const server = createTcpServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return server;
  }));
  const ports = servers.map(portOf);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

export interface Probe {
  readonly text: string;
  readonly ok: boolean;
}

/** One request, and how it went, for people. Never rejects. */
export function probe(url: string): Promise<Probe> {
  const begun = systemClock.monotonic();
  return new Promise((resolve) => {
    const request = get(url, { agent: false, timeout: PROBE_TIMEOUT_MS }, (response) => {
      response.resume();
      response.on("end", () => {
        const ms = (systemClock.monotonic() - begun).toFixed(1);
        resolve({ ok: response.statusCode === 200, text: `${response.statusCode} in ${ms} ms` });
      });
    });
    request.on("timeout", () => request.destroy(new Error("no answer")));
    request.on("error", () => resolve({ ok: false, text: "refused" }));
  });
}
