/**
 * What service-defaults and proxy-defaults say that the agent merges into no registration: extensions of
 * Envoy, and limits of Enterprise.
 *
 * @module
 */

import * as v from "valibot";
import { prepareRegexes } from "../../base/mod.ts";
import type { DefaultsRequest } from "../agent.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { answerOf, blockingQuery, readQuery } from "../http/query.ts";
import { namedKeys } from "./config_keys.ts";
import { isGone } from "./missing.ts";
import { count, flag, list, object, readReply, text } from "./schema.ts";
import type { Defaults } from "../entry_types.ts";

const RATE = { RequestsPerSecond: count, RequestsMaxBurst: count };

const DefaultsReply = object({
  MutualTLSMode: text,
  EnvoyExtensions: list(object({
    Name: text,
    Required: flag,
    Arguments: v.nullish(v.unknown()),
  })),
  RateLimits: v.nullish(object({
    InstanceLevel: v.nullish(object({
      ...RATE,
      Routes: list(object({ ...RATE, PathExact: text, PathPrefix: text, PathRegex: text })),
    })),
  })),
});

/** `null` (no such entry) stays `null`. */
export function readDefaults(json: unknown, { kind, name }: DefaultsRequest): Defaults | null {
  if (json === null) return null;
  const where = `the ${kind} entry ${JSON.stringify(name)}`;
  const entry = readReply(DefaultsReply, json, where);
  const limits = entry.RateLimits?.InstanceLevel;
  const warnings = namedKeys(json, { place: kind, where: `T${where.slice(1)}` });
  return {
    ...(entry.MutualTLSMode && { mutualTlsMode: entry.MutualTLSMode }),
    ...(warnings.length > 0 && { warnings }),
    extensions: (entry.EnvoyExtensions ?? []).map((extension) => ({
      name: extension.Name ?? "",
      required: extension.Required ?? false,
      arguments: extension.Arguments ?? {},
    })),
    ...(limits && {
      rateLimits: {
        ...rateOf(limits),
        routes: (limits.Routes ?? []).map((route) => ({
          ...rateOf(route),
          exact: route.PathExact ?? "",
          prefix: route.PathPrefix ?? "",
          regex: route.PathRegex ?? "",
        })),
      },
    }),
  };
}

function rateOf(json: {
  readonly RequestsPerSecond?: number | null | undefined;
  readonly RequestsMaxBurst?: number | null | undefined;
}): { readonly requestsPerSecond: number; readonly burst: number } {
  return { requestsPerSecond: json.RequestsPerSecond ?? 0, burst: json.RequestsMaxBurst ?? 0 };
}

export function defaultsQuestion(
  client: Client,
  request: DefaultsRequest,
): PollQuestion<Defaults | null> {
  const { kind, name } = request;
  return {
    name: `${kind} ${name}`,
    resource: "defaults",
    critical: false,
    dropped: false,
    isRare: true,
    cursor: "index",
    lacks: isGone,
    async poll(asked) {
      const reply = await client.call({
        resource: "defaults",
        what: `read the ${kind} entry ${JSON.stringify(name)}`,
        path: `/v1/config/${kind}/${encodeURIComponent(name)}`,
        absentIsAnswer: true,
        ...blockingQuery(asked, readQuery(client, { stale: true })),
      });
      const answer = answerOf(reply, asked, (json) => readDefaults(json, request));
      const { rateLimits } = answer.value ?? {};
      if (rateLimits?.routes.some(({ regex }) => regex !== "")) await prepareRegexes();
      return answer;
    },
  };
}
