/** The query for an explanation, and its result: plain data, exchanged between threads. @module */

import type { EndpointSummary } from "../../balance/mod.ts";
import { fieldOf, grpcStatusOf, isGrpc, type RequestHead } from "../../http/mod.ts";
import type { TriedPermission } from "../../policy/mod.ts";
import type { DryRun, Generation, LayerView, Route } from "../../plugin/mod.ts";
import type { Protocol, Resolver } from "../../snapshot/mod.ts";
import { type ErrorCode, type Reply, replyOf } from "../../base/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import type { Upstream } from "../upstream/upstream.ts";

/** Their configuration is times, numbers and conditions: nothing that could be a key. */
export const PLAIN_PLUGINS: ReadonlySet<string> = new Set(["retry", "timeout"]);

export interface ExplainQuery {
  /** `name`: of a listener; `upstream`: its name, id or address, or a host at an edge; else the public one. */
  readonly to: { readonly kind: "inbound" } | {
    readonly kind: "listener" | "upstream";
    readonly name: string;
  };
  /** Name of a service, or the URI of a certificate; `""`: a caller without a certificate. */
  readonly source: string;
  readonly method: string;
  /** Host, and port if there is one; `""`: the request has none; `undefined`: the name of the upstream or service. */
  readonly host: string | undefined;
  /** As a client would write it. */
  readonly path: string;
  /** Each `name: value`. */
  readonly headers: readonly string[];
  /** Connects to the endpoints and the application to see whether they accept; nothing is sent. */
  readonly connects: boolean;
}

export type ExplainResult =
  | { readonly kind: "answer"; readonly explanation: Explanation }
  /** The query is invalid, or names nothing. */
  | { readonly kind: "invalid" | "unknown"; readonly reason: string };

/** The proxy's own response, in place of one by an endpoint or the application. */
export interface LocalReply {
  /** 0: the connection is closed without a response. */
  readonly status: number;
  /** The status that a gRPC caller gets instead; `null`: the caller does not speak gRPC. */
  readonly grpcStatus: number | null;
  readonly code: string;
  readonly reason: string;
}

export interface SentRequest {
  readonly method: string;
  readonly host: string;
  readonly path: string;
}

export interface Explanation {
  readonly listener: string;
  readonly direction: "inbound" | "outbound";
  readonly protocol: Protocol;
  /** `null`: callers of this listener have no identity. */
  readonly source: string | null;
  /** As it is judged and matched; `null`: the listener carries bytes. */
  readonly request: SentRequest | null;
  /** Id of the upstream; `null`: the request goes to the application, or nowhere. */
  readonly upstream: string | null;
  /** `null`: the request goes on; if its {@link splits} differ, each has its own answer. */
  readonly answer: LocalReply | null;
  /** The intention that decides, or the default; `""`: none does. */
  readonly rule: string;
  /** The examined permissions; the last one decides. */
  readonly permissions: readonly TriedPermission[];
  /** Why a token that an intention demands was not verified: `okta: Jwt is expired`. */
  readonly tokens: readonly string[];
  /** `null`: no route takes it, or it does not get that far. */
  readonly route: RouteView | null;
  /** Outermost first. */
  readonly plugins: readonly LayerView[];
  /** One of these is picked at random; empty: the request goes to the application, or nowhere. */
  readonly splits: readonly SplitView[];
  /** The local application; `null`: it does not go there. */
  readonly local: LocalView | null;
  /** 0: none. */
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** `null`: to the local application. */
  readonly limits: LimitsView | null;
  /** Facts that are not known before the request is sent, as sentences. */
  readonly unknown: readonly string[];
}

/** An explanation of a request that no stage has looked at. */
export const NO_FINDINGS = {
  request: null,
  upstream: null,
  answer: null,
  rule: "",
  permissions: [],
  tokens: [],
  route: null,
  plugins: [],
  splits: [],
  local: null,
  limits: null,
  unknown: [],
} satisfies Partial<Explanation>;

export interface RouteView {
  readonly name: string;
  readonly service: string;
  readonly matches: string;
}

export interface LocalView {
  readonly address: string;
  /** `null`: bytes are carried. */
  readonly sent: SentRequest | null;
}

export interface SplitView {
  /** From above 0 to 1. */
  readonly chance: number;
  /** `null`: the request is sent to one of {@link targets}. */
  readonly answer: LocalReply | null;
  /** `null`: bytes are carried, or nothing is sent. */
  readonly sent: SentRequest | null;
  /** The head as it is sent, for judging and never for showing; absent: nothing is sent. */
  readonly head?: RequestHead;
  readonly balancing: Resolver["balancing"];
  /** Parts of the request that are hashed to pick an endpoint, in words. */
  readonly hashedBy: readonly string[];
  /** Plugin configuration of the split by plugin name, in place of that of the route; empty: none. */
  readonly plugins: Readonly<Record<string, unknown>>;
  /** Why there is no target; `""`: there is one. */
  readonly lack: string;
  /** In failover order. */
  readonly targets: readonly TargetView[];
}

export interface TargetView {
  readonly target: string;
  readonly connectTimeoutMs: number;
  /** Why the target has no instance; `""`: it has some. */
  readonly lack: string;
  /** One of these must answer. */
  readonly spiffeUris: readonly string[];
  readonly endpoints: readonly EndpointReach[];
}

export interface EndpointReach extends EndpointSummary {
  /** Why no connection came up just now; `""`: one did; `null`: none was tried. */
  readonly unreachable: string | null;
}

export interface LimitsView {
  readonly connections: Places;
  readonly pending: Places;
  /** `null`: the listener carries bytes. */
  readonly requests: Places | null;
}

interface Places {
  readonly taken: number;
  readonly limit: number;
}

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
export function routeView(
  { name, service, match }: Pick<Route, "name" | "service" | "match">,
): RouteView {
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

/** `targets`: ids of those that a plugin may choose; empty: there is no choice. */
export function unknownOf(
  plugins: Explanation["plugins"],
  generation: Generation | undefined,
  targets: readonly string[] = [],
): readonly string[] {
  const names = (isWanted: (phase: string) => boolean) =>
    plugins.filter(({ name, phase }) =>
      isWanted(phase) && !PLAIN_PLUGINS.has(name) && !generation?.isDry(name)
    ).map(({ name }) => name).join(", ");
  const guards = names((phase) => phase === "guard");
  const others = names((phase) => phase !== "guard");
  const choosing = names((phase) => phase !== "guard" && phase !== "attempt");
  return [
    ...generation?.judgesConnections ? ["Its plugins may refuse the connection."] : [],
    ...guards ? [`${guards}: may answer, or change the request before its route is known.`] : [],
    ...others ? [`${others}: may answer, or change the request and its response.`] : [],
    ...choosing && targets.length > 1
      ? [`${choosing}: may choose another target: ${targets.join(", ")}.`]
      : [],
  ];
}
