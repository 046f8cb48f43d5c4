/** Routers and splitters of a compiled discovery chain in Consul's JSON. @module */

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

/** Not read: the node itself names the next one. */
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
const NO_DESTINATION = v.parse(DestinationJson, {});

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
    destination: toDestination(Definition.Destination ?? NO_DESTINATION),
    next: NextNode,
    unknown: unknownIn(Definition, ROUTE, ""),
  };
}

export function toSplit(
  { Definition, Weight, NextNode }: v.InferOutput<typeof SplitJson>,
): ChainSplit {
  return {
    weight: Weight,
    next: NextNode,
    unknown: unknownIn(Definition, SPLIT, ""),
    requestHeaders: toHeaders(Definition?.RequestHeaders),
    responseHeaders: toHeaders(Definition?.ResponseHeaders),
  };
}

function toMatch(http: v.InferOutput<typeof MatchJson>): RouteMatch | null {
  const match: RouteMatch = {
    path: toPath(http),
    ignoreCase: http.CaseInsensitive,
    methods: http.Methods,
    headers: http.Header.map((header): ValueMatch => ({
      name: header.Name,
      ...valueOf(header),
      ignoreCase: false,
      invert: header.Invert,
    })),
    query: http.QueryParam.map((query): ValueMatch => ({
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
  // Every path begins with a slash.
  if (http.PathPrefix !== "" && http.PathPrefix !== "/") {
    return { kind: "prefix", value: http.PathPrefix };
  }
  return http.PathRegex === "" ? null : { kind: "regex", value: http.PathRegex };
}

/** Without a condition on the value, the field has to be present. */
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
    retryOn: json.RetryOn,
    retryOnStatuses: json.RetryOnStatusCodes,
    requestHeaders: toHeaders(json.RequestHeaders),
    responseHeaders: toHeaders(json.ResponseHeaders),
  };
}

function toHeaders(json: HeadersJson): HeaderTexts | null {
  if (!json) return null;
  const texts = { remove: json.Remove, set: json.Set, add: json.Add };
  const isEmpty = [texts.remove, Object.keys(texts.set), Object.keys(texts.add)]
    .every(({ length }) => length === 0);
  return isEmpty ? null : texts;
}

/** The known fields of blocks, by the name of the block. */
const BLOCKS: Readonly<Record<string, object>> = {
  Match: { HTTP: 0 },
  HTTP: MATCH,
  Header: HEADER,
  QueryParam: QUERY_PARAM,
  Destination: DESTINATION,
  RequestHeaders: HEADERS,
  ResponseHeaders: HEADERS,
};

/** Fields that another version of Consul may write, by their path: `.Match.HTTP.Header[0].Contains`. */
function unknownIn(json: unknown, known: object, where: string): readonly string[] {
  if (Array.isArray(json)) {
    return json.flatMap((each, at) => unknownIn(each, known, `${where}[${at}]`));
  }
  return Object.entries(json ?? {}).flatMap(([key, value]) => {
    const path = `${where}.${key}`;
    if (!Object.hasOwn(known, key)) return isEmpty(value) ? [] : path;
    const block = BLOCKS[key];
    return block ? unknownIn(value, block, path) : [];
  });
}

/** Consul leaves out empty values; a later version may write them. */
function isEmpty(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return !value;
  return Object.keys(value).length === 0;
}
