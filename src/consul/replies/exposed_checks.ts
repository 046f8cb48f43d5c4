/**
 * Checks of the application that the agent sends through the proxy (`Expose.Checks`). The agent's HTTP
 * API tells the port of each, and its path only in the output, once the check has run: also where it
 * failed since nothing listens yet.
 *
 * @module
 */

import type { Client } from "../http/client.ts";
import type { RepeatQuestion } from "../watch/repeat.ts";
import { map, object, port, readReply, text } from "./schema.ts";
import type { ExposedPath } from "../types.ts";

/** The agent is asked this often: it cannot be waited on. */
const INTERVAL_MS = 2_000;
const DEADLINE_MS = 5_000;
const GRPC_PATH = "/grpc.health.v1.Health/Check";

const ChecksReply = map(
  object({ CheckID: text, ServiceID: text, Type: text, Output: text, ExposedPort: port }),
);

/**
 * Where the checks of `serviceId` are to be served, by port. `known` keeps paths by check: an agent that
 * restarts forgets what a check said.
 */
export function readExposedChecks(
  json: unknown,
  serviceId: string,
  known: Map<string, string>,
): readonly ExposedPath[] {
  const checks = Object.values(readReply(ChecksReply, json, "the agent's checks") ?? {});
  const exposed: ExposedPath[] = [];
  for (const { CheckID, ServiceID, Type, Output, ExposedPort } of checks) {
    if (ServiceID !== serviceId || ExposedPort === 0) continue;
    const isGrpc = Type === "grpc";
    const key = `${CheckID} ${ExposedPort}`;
    const path = isGrpc ? GRPC_PATH : pathOf(Output, ExposedPort) ?? known.get(key);
    if (path === undefined) continue;
    known.set(key, path);
    const protocol = isGrpc ? "http2" : "http";
    exposed.push({ listenerPort: ExposedPort, path, localPort: 0, protocol });
  }
  return exposed.sort((a, b) => a.listenerPort - b.listenerPort);
}

/** What the agent itself writes in front: what follows is the application's text. */
const RAN = /^HTTP [A-Z]+ http:\/\/[^/\s"?#]*:(\d+)(\/[^\s"?#]*)?[^\s"]*: \d{3} /;
const FAILED = /^[A-Z][a-z]* "http:\/\/[^/\s"?#]*:(\d+)(\/[^\s"?#]*)?[^\s"]*": /;

function pathOf(output: string, port: number): string | undefined {
  const [, at, path = "/"] = RAN.exec(output) ?? FAILED.exec(output) ?? [];
  return Number(at) === port ? path : undefined;
}

export function exposedChecksQuestion(
  client: Client,
  serviceId: string,
): RepeatQuestion<readonly ExposedPath[]> {
  const known = new Map<string, string>();
  return {
    name: `exposed checks ${serviceId}`,
    resource: "checks",
    kind: "call",
    intervalMs: INTERVAL_MS,
    async ask(signal) {
      const reply = await client.call({
        resource: "checks",
        what: `read the checks of ${JSON.stringify(serviceId)}`,
        path: "/v1/agent/checks",
        query: { filter: `ServiceID == ${JSON.stringify(serviceId)}` },
        timeoutMs: DEADLINE_MS,
        signal,
      });
      return readExposedChecks(reply.json, serviceId, known);
    },
  };
}
