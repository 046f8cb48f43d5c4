/**
 * Parts of an explanation that need only one input each.
 *
 * @module
 */

import { type ErrorCode, type Reply, replyOf } from "../../base/mod.ts";
import { fieldOf, grpcStatusOf, isGrpc, type RequestHead } from "../../http/mod.ts";
import type { DryRun, Generation, Route } from "../../plugin/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import {
  type Explanation,
  type LimitsView,
  type LocalReply,
  PLAIN_PLUGINS,
  type RouteView,
  type SentRequest,
} from "./explanation.ts";
import type { Upstream } from "../upstream/upstream.ts";

export function closed(code: ErrorCode, reason: string): LocalReply {
  return { status: 0, grpcStatus: null, code, reason };
}

/** The proxy's own response to a request that ends with that code or reply. */
export function ownAnswer(
  { fields }: Pick<RequestHead, "fields">,
  as: ErrorCode | Reply,
  reason: string,
): LocalReply {
  const [code, { status }] = typeof as === "string" ? [as, replyOf(as, reason)] : ["", as];
  // As `http/reply.ts` has it: a gRPC client follows no redirect.
  const grpcStatus = isGrpc(fields) ? grpcStatusOf(status === 307 ? 400 : status) : null;
  return { status, grpcStatus, code, reason };
}

export function dryAnswer(
  request: Pick<RequestHead, "fields">,
  { response: { status, failure, head }, by }: NonNullable<DryRun["answer"]>,
): LocalReply {
  if (failure) return ownAnswer(request, failure.code, failure.reason);
  const location = fieldOf(head.fields, "location");
  const where = location === undefined ? "" : `: it is sent to ${location}`;
  return { status, grpcStatus: null, code: "", reason: `the plugin ${by} answers${where}` };
}

export function sentView({ method, authority: host, path }: RequestHead): SentRequest {
  return { method, host, path };
}

export function limitsOf({ connections, pending, requests, part: { http } }: Upstream): LimitsView {
  const places = ({ taken, limit }: SharedLimiter) => ({ taken, limit });
  return {
    connections: places(connections),
    pending: places(pending),
    requests: http && places(requests),
  };
}

/** The match in words, without header values, which may be tokens. */
export function routeView({ name, service, match }: Route): RouteView {
  if (!match) return { name, service, matches: "everything" };
  const { path, methods, headers, query } = match;
  const star = path?.kind === "prefix" ? "*" : "";
  const words = [
    methods.join("|"),
    path ? `${path.kind === "regex" ? "~" : ""}${path.value}${star}` : "",
    ...headers.map(({ name }) => `header ${name}`),
    ...query.map(({ name }) => `query ${name}`),
  ];
  return { name, service, matches: words.filter((word) => word !== "").join(" ") || "everything" };
}

export function unknownOf(
  plugins: Explanation["plugins"],
  generation: Generation | undefined,
): readonly string[] {
  const names = (isWanted: (phase: string) => boolean) =>
    plugins.filter(({ name, phase }) =>
      isWanted(phase) && !PLAIN_PLUGINS.has(name) && !generation?.isDry(name)
    ).map(({ name }) => name).join(", ");
  const guards = names((phase) => phase === "guard");
  const others = names((phase) => phase !== "guard");
  return [
    ...generation?.judgesConnections ? ["Its plugins may refuse the connection."] : [],
    ...guards ? [`${guards}: may answer, or change the request before its route is known.`] : [],
    ...others ? [`${others}: may answer, or change the request and its response.`] : [],
  ];
}
