/**
 * The stages of a request between its head and the endpoint that it is sent to, in order. A request on its
 * way and one that is only explained run the same list; they differ in what they do where a stage hands
 * over to plugins or to a pool.
 *
 * @module
 */

import { DEFAULT_ROUTE } from "../../chain/mod.ts";
import type { ErrorCode } from "../../base/mod.ts";
import {
  addField,
  type ExchangeRecord,
  forwardClientCert,
  forwardRequest,
  normalizePath,
  type RequestHead,
  type RequestIds,
  ruleUnderscores,
} from "../../http/mod.ts";
import type { Generation } from "../../plugin/mod.ts";
import type { TokenNeed, VerifiedClaims } from "../../policy/mod.ts";
import type { ExposedPathRule, RequestJudge } from "../caller/authorize.ts";
import type { Context } from "../core/context.ts";
import type { RequestPool, RequestRoute } from "../upstream/request_pools.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import type { DownstreamInfo } from "./exchange_value.ts";
import type { ListenerFacts } from "../caller/session.ts";
import type { HttpStats } from "../observe/http_stats.ts";
import type { ExchangeObserver } from "../observe/observers.ts";

/** The requests of one listener, for its life. Values that change with a snapshot are read when needed. */
export interface HttpListener {
  readonly facts: ListenerFacts;
  /** Key of the plugins that verify tokens before a request is judged; absent: none ever do. */
  readonly tokens?: string;
  /** Judges by a path in place of intentions. */
  readonly exposed?: ExposedPathRule;
  routeOf(request: Pick<RequestHead, "authority">): RequestRoute | undefined;
  readonly stats: HttpStats;
  readonly observers: Required<ExchangeObserver>;
  rules(): HttpRules;
}

export interface FormOptions {
  readonly rules: Pick<HttpRules, "path" | "requestTimeoutMs" | "sanitizeForwardedClientCert">;
  readonly caller: Pick<DownstreamInfo, "isSecure" | "clientCert">;
  readonly ids: RequestIds;
  /** The application gets the caller's identity in `X-Forwarded-Client-Cert`. */
  readonly isInbound: boolean;
}

export interface StagedRequest {
  readonly head: RequestHead;
  readonly listener: HttpListener;
  readonly context: Pick<Context, "facts" | "requestIds">;
  readonly record: ExchangeRecord;
  readonly caller: FormOptions["caller"];
  /** Key of the caller that takes a place in a pool; `""`: none in particular. */
  readonly callerKey: string;
  readonly judge: RequestJudge;
  readonly claims: VerifiedClaims | undefined;
  route: RequestRoute | undefined;
  /** Has `generation` verify the tokens; the stage after this one follows later. */
  verifyTokens(generation: Generation): void;
  /** Hands the request over to the plugins of its listener. */
  runPlugins(generation: Generation, route: RequestRoute): void;
  /** A place in `pool` was taken: sends the request there. */
  sendTo(pool: RequestPool, route: RequestRoute): void;
}

export interface StageRefusal {
  readonly code: ErrorCode;
  readonly reason: string;
  /** The path is redirected there in place of a refusal. */
  readonly location?: string;
  /** Tokens that would have allowed the request; absent: no token would. */
  readonly lacks?: readonly TokenNeed[] | undefined;
}

/** `undefined`: continue; `handed_over`: the request continues by itself, at once or later. */
export type StageResult = StageRefusal | "handed_over" | undefined;

export interface RequestStage {
  readonly name: "form" | "tokens" | "judge" | "route" | "plugins" | "pool";
  run(request: StagedRequest): StageResult;
}

export const REQUEST_STAGES: readonly RequestStage[] = [
  { name: "form", run: normalize },
  { name: "tokens", run: verifyTokens },
  { name: "judge", run: judgeRequest },
  { name: "route", run: findRoute },
  { name: "plugins", run: enterPlugins },
  { name: "pool", run: enterPool },
];

/** Index of the stage that follows verified tokens. */
export const AFTER_TOKENS: number = REQUEST_STAGES.findIndex(({ name }) => name === "judge");

const EXPECTED_MS = "x-envoy-expected-rq-timeout-ms";
const PATH: StageRefusal = { code: "request_invalid", reason: "its path is refused" };
const UNDERSCORE: StageRefusal = {
  code: "request_invalid",
  reason: "the name of a field has an underscore",
};

function normalize({ head, listener, caller, context, record }: StagedRequest): StageResult {
  const { path } = head;
  // Before the form: a request that is refused has a span, too. Probes of exposed paths have none.
  if (!listener.exposed) context.facts.tracer?.begin(head, record, listener.facts);
  const refusal = takeForm(head, {
    rules: listener.rules(),
    caller,
    ids: context.requestIds,
    isInbound: listener.facts.direction === "inbound",
  });
  if (head.path !== path) record.originalPath = path;
  return refusal;
}

/** Puts a request into the one form that is judged, matched and read by the application. */
export function takeForm(
  request: RequestHead,
  { rules, caller, ids, isInbound }: FormOptions,
): StageRefusal | undefined {
  const path = normalizePath(request.path, rules.path);
  if (typeof path !== "string") {
    if (path.status === 400) return PATH;
    const { location } = path;
    return { code: "request_invalid", reason: `the path is redirected to ${location}`, location };
  }
  request.path = path;
  const { fields } = request;
  if (!ruleUnderscores(fields, rules.path.underscores)) return UNDERSCORE;
  forwardRequest(request, caller.isSecure);
  ids.ensure(fields);
  // Lets the application stop when the caller no longer waits.
  if (rules.requestTimeoutMs > 0) addField(fields, EXPECTED_MS, String(rules.requestTimeoutMs));
  // An identity that a local application claims proves nothing.
  const isForwarded = isInbound && !rules.sanitizeForwardedClientCert;
  forwardClientCert(fields, isForwarded ? caller.clientCert : "");
  return undefined;
}

function verifyTokens(request: StagedRequest): StageResult {
  const { listener: { tokens }, context } = request;
  const generation = tokens === undefined ? undefined : context.facts.plugins?.of(tokens);
  if (!generation) return undefined;
  request.verifyTokens(generation);
  return "handed_over";
}

/** Also applied to open requests whenever policy or credentials change. */
export function judgeRequest(request: StagedRequest): StageRefusal | undefined {
  const { head, record, listener } = request;
  const verdict = request.judge(head, request.claims);
  if (!("code" in verdict)) {
    record.rule = verdict.rule;
    return undefined;
  }
  const { code, reason, isUnjudged, lacks } = verdict;
  if (isUnjudged) listener.stats.unjudged(reason);
  record.rule = reason;
  return { code, reason, lacks };
}

/** A CONNECT names no path, so no rule about paths could hold for it. */
const NO_TUNNELS: StageRefusal = { code: "route_not_found", reason: "CONNECT is not supported" };
const NO_HOST: StageRefusal = {
  code: "route_not_found",
  reason: "no service is here for its host",
};
const NO_POOL: StageRefusal = { code: "route_not_found", reason: "its route leads nowhere" };

function findRoute(request: StagedRequest): StageResult {
  const { head, listener, record } = request;
  if (head.method === "CONNECT") return NO_TUNNELS;
  const route = request.route = listener.routeOf(head);
  if (!route) return NO_HOST;
  route.changeRequest?.(head.fields, record);
  if (route.ownNames) head.ownNames = [...head.ownNames ?? [], ...route.ownNames];
  return undefined;
}

function enterPlugins(request: StagedRequest): StageResult {
  const { route, context, listener } = request;
  const generation = context.facts.plugins?.of(route?.plugins ?? listener.facts.name);
  if (!generation || !route) return undefined;
  request.runPlugins(generation, route);
  return "handed_over";
}

function enterPool(request: StagedRequest): StageResult {
  const { route, record } = request;
  const pool = route?.poolFor(DEFAULT_ROUTE);
  const refusal = whyNoPlace(pool, request.callerKey);
  if (!pool || !route || refusal) return refusal;
  record.upstreamCluster = pool.cluster;
  request.sendTo(pool, route);
  return "handed_over";
}

/** Takes a place in `pool` for one request; `undefined`: it was taken. */
export function whyNoPlace(
  pool: RequestPool | undefined,
  callerKey: string,
  lost: StageRefusal = NO_POOL,
): StageRefusal | undefined {
  if (!pool) return lost;
  return pool.enter(callerKey) ? undefined : { code: "limit_reached", reason: pool.whyFull() };
}
