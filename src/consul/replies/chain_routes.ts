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
import { count, duration, flag, list, map, object, openObject, text } from "./schema.ts";

const HEADERS = { Add: map(v.string()), Set: map(v.string()), Remove: list(v.string()) };
const HeadersJson = v.nullish(openObject(HEADERS));
type HeadersJson = v.InferOutput<typeof HeadersJson>;

const HEADER = {
  Name: text,
  Present: flag,
  Exact: text,
  Prefix: text,
  Suffix: text,
  Regex: text,
  Invert: flag,
};
const QUERY_PARAM = { Name: text, Present: flag, Exact: text, Regex: text };
const MATCH = {
  PathExact: text,
  PathPrefix: text,
  PathRegex: text,
  CaseInsensitive: flag,
  Header: list(openObject(HEADER)),
  QueryParam: list(openObject(QUERY_PARAM)),
  Methods: list(v.string()),
};
const MatchJson = openObject(MATCH);

/** The chain's own business: a node says where it leads. */
const WHERE = { Service: text, ServiceSubset: text, Namespace: text, Partition: text };
const DESTINATION = {
  ...WHERE,
  PrefixRewrite: text,
  RequestTimeout: duration,
  IdleTimeout: duration,
  NumRetries: count,
  RetryOnConnectFailure: flag,
  RetryOn: list(v.string()),
  RetryOnStatusCodes: list(v.number()),
  RequestHeaders: HeadersJson,
  ResponseHeaders: HeadersJson,
};
const DestinationJson = openObject(DESTINATION);
const NOTHING_ASKED = v.parse(DestinationJson, {});

const ROUTE = {
  Match: v.nullish(openObject({ HTTP: v.nullish(MatchJson) })),
  Destination: v.nullish(DestinationJson),
};
export const RouteJson = object({ Definition: openObject(ROUTE), NextNode: text });

const SPLIT = {
  ...WHERE,
  Weight: v.nullish(v.number()),
  RequestHeaders: HeadersJson,
  ResponseHeaders: HeadersJson,
};
export const SplitJson = object({
  Definition: v.nullish(openObject(SPLIT)),
  Weight: v.nullish(v.pipe(v.number(), v.minValue(0), v.maxValue(100)), 0),
  NextNode: text,
});

export function toRoute({ Definition, NextNode }: v.InferOutput<typeof RouteJson>): RouterRoute {
  const http = Definition.Match?.HTTP;
  return {
    match: http ? toMatch(http) : null,
    destination: toDestination(Definition.Destination ?? NOTHING_ASKED),
    next: NextNode,
    unknown: unknownOf(Definition),
  };
}

export function toSplit(
  { Definition, Weight, NextNode }: v.InferOutput<typeof SplitJson>,
): ChainSplit {
  return {
    weight: Weight,
    next: NextNode,
    unknown: [...strangeIn(Definition, SPLIT, ""), ...strangeHeaders(Definition, "")],
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

function toHeaders(json: HeadersJson): HeaderTexts | null {
  if (!json) return null;
  const texts = { remove: json.Remove ?? [], set: json.Set ?? {}, add: json.Add ?? {} };
  const isEmpty = [texts.remove, Object.keys(texts.set), Object.keys(texts.add)]
    .every(({ length }) => length === 0);
  return isEmpty ? null : texts;
}

/** What another Consul may say of a route, by where it stands: `.Match.HTTP.Header[0].Contains`. */
function unknownOf(route: v.InferOutput<typeof RouteJson>["Definition"]): readonly string[] {
  const { Match, Destination } = route;
  const http = Match?.HTTP;
  return [
    ...strangeIn(route, ROUTE, ""),
    ...strangeIn(Match, { HTTP: 0 }, ".Match"),
    ...strangeIn(http, MATCH, ".Match.HTTP"),
    ...(http?.Header ?? []).flatMap((each, at) =>
      strangeIn(each, HEADER, `.Match.HTTP.Header[${at}]`)
    ),
    ...(http?.QueryParam ?? []).flatMap((each, at) =>
      strangeIn(each, QUERY_PARAM, `.Match.HTTP.QueryParam[${at}]`)
    ),
    ...strangeIn(Destination, DESTINATION, ".Destination"),
    ...strangeHeaders(Destination, ".Destination"),
  ];
}

function strangeHeaders(
  of:
    | { readonly RequestHeaders?: HeadersJson; readonly ResponseHeaders?: HeadersJson }
    | null
    | undefined,
  where: string,
): readonly string[] {
  return [
    ...strangeIn(of?.RequestHeaders, HEADERS, `${where}.RequestHeaders`),
    ...strangeIn(of?.ResponseHeaders, HEADERS, `${where}.ResponseHeaders`),
  ];
}

function strangeIn(
  json: object | null | undefined,
  known: object,
  where: string,
): readonly string[] {
  return Object.entries(json ?? {})
    .filter(([key, value]) => !Object.hasOwn(known, key) && says(value))
    .map(([key]) => `${where}.${key}`);
}

/** Consul leaves out what is empty, and might write it one day. */
function says(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return Boolean(value);
  return Object.keys(value).length > 0;
}
