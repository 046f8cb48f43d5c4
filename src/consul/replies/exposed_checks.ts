/**
 * Checks of the application that the agent sends through the proxy (`Expose.Checks`). The agent's HTTP API
 * has the port of each, and its path only in the output, once the check has run, also without success.
 * Only the agent may call them: from its own host, or from the address that its node has in the catalog.
 *
 * @module
 */

import { canonicalIpText, ProxyError } from "../../base/mod.ts";
import * as v from "valibot";
import type { Client } from "../http/client.ts";
import type { RepeatQuestion } from "../watch/repeat.ts";
import { map, object, port, readReply, text } from "./schema.ts";
import type { ExposedPath } from "../model/values.ts";

/** The agent's list of checks cannot be waited on. */
const INTERVAL_MS = 2_000;
/** The address changes only with a restart: it is read once in this many rounds. */
const ADDRESS_ROUNDS = 30;
const DEADLINE_MS = 5_000;
const GRPC_PATH = "/grpc.health.v1.Health/Check";

const ChecksReply = map(
  object({
    CheckID: text,
    ServiceID: text,
    Node: text,
    Type: text,
    Output: text,
    ExposedPort: port,
  }),
);
const NodeReply = v.nullable(object({ Node: object({ Address: text }) }));

interface ExposedChecks {
  readonly paths: readonly ExposedPath[];
  /** The agent's node; `""`: no check is exposed. */
  readonly node: string;
}

/**
 * Where the checks of `serviceId` are served, by port. `known` keeps paths by check: an agent that restarts
 * forgets the output of a check.
 */
export function readExposedChecks(
  json: unknown,
  serviceId: string,
  known: Map<string, string>,
): ExposedChecks {
  const checks = Object.values(readReply(ChecksReply, json, "the agent's checks"));
  const paths: ExposedPath[] = [];
  let node = "";
  for (const { CheckID, ServiceID, Node, Type, Output, ExposedPort } of checks) {
    if (ServiceID !== serviceId || ExposedPort === 0) continue;
    node = Node;
    const isGrpc = Type === "grpc";
    const key = `${CheckID} ${ExposedPort}`;
    const path = isGrpc ? GRPC_PATH : pathOf(Output, ExposedPort) ?? known.get(key);
    if (path === undefined) continue;
    known.set(key, path);
    const protocol = isGrpc ? "http2" : "http";
    paths.push({ listenerPort: ExposedPort, path, localPort: 0, protocol });
  }
  return { paths: paths.sort((a, b) => a.listenerPort - b.listenerPort), node };
}

/** The agent's own text at the beginning; the application's follows. */
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
  let address: string | undefined;
  let round = 0;
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
      const { paths, node } = readExposedChecks(reply.json, serviceId, known);
      if (paths.length === 0) return [];
      if (address === undefined || round++ % ADDRESS_ROUNDS === 0) {
        address = await askAddress(client, node, signal);
      }
      const onlyFrom = [address];
      return paths.map((path) => ({ ...path, onlyFrom }));
    },
  };
}

/** The address that the agent of that node advertises, in canonical form. */
async function askAddress(client: Client, node: string, signal: AbortSignal): Promise<string> {
  const needs = `node:read on ${JSON.stringify(node)}`;
  const reply = await client.call({
    resource: "node",
    what: "read the agent's address, from which it calls exposed checks",
    needs,
    path: `/v1/catalog/node/${encodeURIComponent(node)}`,
    flags: client.options.stale ? ["stale"] : [],
    timeoutMs: DEADLINE_MS,
    signal,
  });
  const entry = readReply(NodeReply, reply.json, `the node ${JSON.stringify(node)}`);
  const address = canonicalIpText(entry?.Node.Address ?? "");
  if (address !== undefined) return address;
  throw new ProxyError(
    "agent_not_found",
    "Cannot read the agent's address, from which it calls exposed checks: the catalog shows none " +
      `of the node ${JSON.stringify(node)}; the token may need ${needs}`,
  );
}
