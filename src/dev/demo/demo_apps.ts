/**
 * The applications of the demonstration mesh, and how one sees whether they answer.
 *
 * @module
 */

import { createServer, type IncomingMessage, request, type Server } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { systemClock } from "../../base/mod.ts";

const PROBE_TIMEOUT_MS = 900;

/** A small HTTP service on 127.0.0.1. */
export async function startApp(name: string, port = 0): Promise<Server> {
  let answered = 0;
  const server = createServer((request, response) => {
    const { method, url } = request;
    request.resume();
    response.setHeader("content-type", "text/plain; charset=utf-8");
    response.end(
      `hello${callerOf(request)} from ${name}: ${method} ${url}, answer ${++answered}\n`,
    );
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return server;
}

/** As its sidecar has proven it. */
function callerOf({ headers }: IncomingMessage): string {
  const [, service] = /URI=[^,;]*\/svc\/([\w-]+)/.exec(
    String(headers["x-forwarded-client-cert"] ?? ""),
  ) ?? [];
  return service === undefined ? "" : ` ${service}`;
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
  /** 0: nobody answered. */
  readonly status: number;
  readonly text: string;
}

/** One request, and how it went, for people. Never rejects. */
export function probe(url: string, method = "GET"): Promise<Probe> {
  const begun = systemClock.monotonic();
  return new Promise((resolve) => {
    const options = { method, agent: false, timeout: PROBE_TIMEOUT_MS };
    const asked = request(url, options, (response) => {
      const { statusCode: status = 0 } = response;
      response.resume();
      response.on("error", () => resolve({ status: 0, text: "broken" }));
      response.on("end", () => {
        const ms = (systemClock.monotonic() - begun).toFixed(1);
        resolve({ status, text: `${status} in ${ms} ms` });
      });
    });
    asked.on("timeout", () => asked.destroy(new Error("no answer")));
    asked.on("error", () => resolve({ status: 0, text: "no answer" }));
    asked.end();
  });
}
