/**
 * Routers and splitters of a compiled discovery chain, as the agent writes them.
 *
 * @module
 */

import * as v from "valibot";
import type {
  ChainSplit,
  HeaderTexts,
  RouteDestination,
  RouteMatch,
  RouterRoute,
  ValueMatch,
} from "../../chain/mod.ts";
import { count, duration, flag, list, map, object, text } from "./schema.ts";

const HeadersJson = v.nullish(object({
  Add: map(v.string()),
  Set: map(v.string()),
  Remove: list(v.string()),
}));

const MatchJson = object({
  PathExact: text,
  PathPrefix: text,
  PathRegex: text,
  CaseInsensitive: flag,
  Header: list(object({
    Name: text,
    Present: flag,
    Exact: text,
    Prefix: text,
    Suffix: text,
    Regex: text,
    Invert: flag,
  })),
  QueryParam: list(object({ Name: text, Present: flag, Exact: text, Regex: text })),
  Methods: list(v.string()),
});

const DestinationJson = object({
  Service: text,
  PrefixRewrite: text,
  RequestTimeout: duration,
  IdleTimeout: duration,
  NumRetries: count,
  RetryOnConnectFailure: flag,
  RetryOn: list(v.string()),
  RetryOnStatusCodes: list(v.number()),
  RequestHeaders: HeadersJson,
  ResponseHeaders: HeadersJson,
});
const NOTHING_ASKED = v.parse(DestinationJson, {});

export const RouteJson = object({
  Definition: object({
    Match: v.nullish(object({ HTTP: v.nullish(MatchJson) })),
    Destination: v.nullish(DestinationJson),
  }),
  NextNode: text,
});

export const SplitJson = object({
  Definition: v.nullish(object({ RequestHeaders: HeadersJson, ResponseHeaders: HeadersJson })),
  Weight: v.nullish(v.pipe(v.number(), v.minValue(0), v.maxValue(100)), 0),
  NextNode: text,
});

export function toRoute({ Definition, NextNode }: v.InferOutput<typeof RouteJson>): RouterRoute {
  const http = Definition.Match?.HTTP;
  return {
    match: http ? toMatch(http) : null,
    destination: toDestination(Definition.Destination ?? NOTHING_ASKED),
    next: NextNode,
  };
}

export function toSplit(
  { Definition, Weight, NextNode }: v.InferOutput<typeof SplitJson>,
): ChainSplit {
  return {
    weight: Weight,
    next: NextNode,
    requestHeaders: toHeaders(Definition?.RequestHeaders),
    responseHeaders: toHeaders(Definition?.ResponseHeaders),
  };
}

function toMatch(http: v.InferOutput<typeof MatchJson>): RouteMatch | null {
  const match: RouteMatch = {
    path: toPath(http),
    ignoreCase: http.CaseInsensitive,
    methods: http.Methods ?? [],
    headers: (http.Header ?? []).map((header): ValueMatch => ({
      name: header.Name,
      ...valueOf(header),
      ignoreCase: false,
      invert: header.Invert,
    })),
    query: (http.QueryParam ?? []).map((query): ValueMatch => ({
      name: query.Name,
      ...valueOf(query),
      ignoreCase: false,
      invert: false,
    })),
  };
  const { path, methods, headers, query } = match;
  const takesAll = path === null && [methods, headers, query].every(({ length }) => length === 0);
  return takesAll ? null : match;
}

function toPath(http: v.InferOutput<typeof MatchJson>): RouteMatch["path"] {
  if (http.PathExact !== "") return { kind: "exact", value: http.PathExact };
  // Every path begins so.
  if (http.PathPrefix !== "" && http.PathPrefix !== "/") {
    return { kind: "prefix", value: http.PathPrefix };
  }
  return http.PathRegex === "" ? null : { kind: "regex", value: http.PathRegex };
}

/** Where nothing is said of the value it has to be there, and no more. */
function valueOf(
  { Exact, Prefix = "", Suffix = "", Regex }: {
    readonly Exact: string;
    readonly Prefix?: string;
    readonly Suffix?: string;
    readonly Regex: string;
  },
): Pick<ValueMatch, "kind" | "value"> {
  if (Exact !== "") return { kind: "exact", value: Exact };
  if (Prefix !== "") return { kind: "prefix", value: Prefix };
  if (Suffix !== "") return { kind: "suffix", value: Suffix };
  return Regex === "" ? { kind: "present", value: "" } : { kind: "regex", value: Regex };
}

function toDestination(json: v.InferOutput<typeof DestinationJson>): RouteDestination {
  return {
    service: json.Service,
    prefixRewrite: json.PrefixRewrite,
    requestTimeoutMs: json.RequestTimeout,
    idleTimeoutMs: json.IdleTimeout,
    retries: json.NumRetries,
    retryOnConnectFailure: json.RetryOnConnectFailure,
    retryOn: json.RetryOn ?? [],
    retryOnStatuses: json.RetryOnStatusCodes ?? [],
    requestHeaders: toHeaders(json.RequestHeaders),
    responseHeaders: toHeaders(json.ResponseHeaders),
  };
}

function toHeaders(json: v.InferOutput<typeof HeadersJson>): HeaderTexts | null {
  if (!json) return null;
  const texts = { remove: json.Remove ?? [], set: json.Set ?? {}, add: json.Add ?? {} };
  const isEmpty = [texts.remove, Object.keys(texts.set), Object.keys(texts.add)]
    .every(({ length }) => length === 0);
  return isEmpty ? null : texts;
}
