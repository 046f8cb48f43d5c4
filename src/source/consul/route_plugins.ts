/**
 * What the routes of a chain ask of requests, as configuration of the plugins that give it. What none
 * gives is named: a route that loses a part of what it asks for is another route.
 *
 * @module
 */

import { compileRegex } from "../../base/mod.ts";
import type { HeaderTexts, ResolvedRoute, RouteDestination, RouteMatch } from "../../chain/mod.ts";
import { headerFault } from "../../http/mod.ts";

export type RoutePlugins =
  | { readonly kind: "taken"; readonly plugins: Readonly<Record<string, unknown>> }
  /** `reason` says what of which route cannot be followed. */
  | { readonly kind: "refused"; readonly reason: string };

/** What Consul lets an entry say. */
const RETRIED: ReadonlySet<string> = new Set([
  "5xx",
  "gateway-error",
  "reset",
  "connect-failure",
  "envoy-ratelimited",
  "retriable-4xx",
  "refused-stream",
  "cancelled",
  "deadline-exceeded",
  "internal",
  "resource-exhausted",
  "unavailable",
]);
const MAX_RETRIES = 100;
const MAX_MS = 2 ** 31 - 1;

/** Regexes must have been prepared where a route has one. */
export function pluginsOfRoute(route: ResolvedRoute): RoutePlugins {
  const fault = regexFault(route.match);
  if (fault) return refused(`the match of ${route.name} cannot be used: ${fault}`);
  const lacking = notFollowed(route);
  if (lacking.length > 0) {
    return refused(`${lacking.join(", ")} of ${route.name} is not followed yet`);
  }
  const { destination } = route;
  if (!destination) return { kind: "taken", plugins: {} };
  const { requestHeaders, responseHeaders } = destination;
  for (const headers of [requestHeaders, responseHeaders]) {
    const headersFault = headers && faultOf(headers);
    if (headersFault) return refused(`a header change of ${route.name} ${headersFault}`);
  }
  const rules = {
    ...requestHeaders && { request: requestHeaders },
    ...responseHeaders && { response: responseHeaders },
  };
  const all = { header_rules: rules, retry: retryOf(destination), timeout: timeoutOf(destination) };
  const asked = Object.entries(all).filter(([, config]) => Object.keys(config).length > 0);
  return { kind: "taken", plugins: Object.fromEntries(asked) };
}

function retryOf(asked: RouteDestination): object {
  return {
    ...asked.retries > 0 && { numRetries: Math.min(asked.retries, MAX_RETRIES) },
    ...asked.retryOnConnectFailure && { retryOnConnectFailure: true },
    ...asked.retryOn.length > 0 && { retryOn: asked.retryOn },
    ...asked.retryOnStatuses.length > 0 && { retryOnStatusCodes: asked.retryOnStatuses },
  };
}

/** A negative time is none at all, which a plugin calls 0. */
function timeoutOf({ requestTimeoutMs, idleTimeoutMs }: RouteDestination): object {
  return {
    ...requestTimeoutMs !== 0 && { requestTimeoutMs: wholeMs(requestTimeoutMs) },
    ...idleTimeoutMs !== 0 && { idleTimeoutMs: wholeMs(idleTimeoutMs) },
  };
}

function wholeMs(ms: number): number {
  return Math.min(Math.ceil(Math.max(ms, 0)), MAX_MS);
}

function refused(reason: string): RoutePlugins {
  return { kind: "refused", reason };
}

/** As the entry calls it. */
function notFollowed({ destination, splits }: ResolvedRoute): readonly string[] {
  const lacking = [];
  if (destination) {
    if (destination.prefixRewrite !== "") lacking.push("PrefixRewrite");
    if (!destination.retryOn.every((what) => RETRIED.has(what))) lacking.push("RetryOn");
    if (!destination.retryOnStatuses.every(isStatus)) lacking.push("RetryOnStatusCodes");
  }
  if (splits.some((split) => split.requestHeaders || split.responseHeaders)) {
    lacking.push("the header changes of a split");
  }
  return lacking;
}

function isStatus(code: number): boolean {
  return Number.isInteger(code) && code >= 200 && code <= 599;
}

function faultOf({ remove, set, add }: HeaderTexts): string | undefined {
  for (const name of remove) {
    const fault = headerFault(name);
    if (fault) return `removes ${JSON.stringify(name)}, which ${fault}`;
  }
  for (const [name, value] of [...Object.entries(set), ...Object.entries(add)]) {
    const fault = headerFault(name, value);
    if (fault) return `is about ${JSON.stringify(name)}: it ${fault}`;
    if (value.includes("%")) {
      return `has an operator in the value of ${JSON.stringify(name)}, which is not followed yet`;
    }
  }
  return undefined;
}

function regexFault(match: RouteMatch | null): string | undefined {
  for (const { kind, value } of regexesOf(match)) {
    const compiled = kind === "regex" ? compileRegex(value) : undefined;
    if (compiled?.kind === "refused") return compiled.reason;
  }
  return undefined;
}

function regexesOf(match: RouteMatch | null): readonly { kind: string; value: string }[] {
  if (!match) return [];
  return [...match.path ? [match.path] : [], ...match.headers, ...match.query];
}
