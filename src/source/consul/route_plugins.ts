/**
 * What the routes of a chain ask of requests, as configuration of the plugins that give it. What none
 * gives is named: a route that loses a part of what it asks for is another route.
 *
 * @module
 */

import { compileRegex } from "../../base/mod.ts";
import type { HeaderTexts, ResolvedRoute, RouteMatch } from "../../chain/mod.ts";
import { headerFault } from "../../http/mod.ts";

export type RoutePlugins =
  | { readonly kind: "taken"; readonly plugins: Readonly<Record<string, unknown>> }
  /** `reason` says what of which route cannot be followed. */
  | { readonly kind: "refused"; readonly reason: string };

/** Regexes must have been prepared where a route has one. */
export function pluginsOfRoute(route: ResolvedRoute): RoutePlugins {
  const fault = regexFault(route.match);
  if (fault) return refused(`the match of ${route.name} cannot be used: ${fault}`);
  const lacking = notFollowed(route);
  if (lacking.length > 0) {
    return refused(`${lacking.join(", ")} of ${route.name} is not followed yet`);
  }
  const { requestHeaders = null, responseHeaders = null } = route.destination ?? {};
  for (const headers of [requestHeaders, responseHeaders]) {
    const headersFault = headers && faultOf(headers);
    if (headersFault) return refused(`a header change of ${route.name} ${headersFault}`);
  }
  if (!requestHeaders && !responseHeaders) return { kind: "taken", plugins: {} };
  const rules = {
    ...requestHeaders && { request: requestHeaders },
    ...responseHeaders && { response: responseHeaders },
  };
  return { kind: "taken", plugins: { header_rules: rules } };
}

function refused(reason: string): RoutePlugins {
  return { kind: "refused", reason };
}

/** As the entry calls it. Connections that fail are made elsewhere anyway, which is all of some retries. */
function notFollowed({ destination, splits }: ResolvedRoute): readonly string[] {
  const lacking = [];
  if (destination) {
    if (destination.prefixRewrite !== "") lacking.push("PrefixRewrite");
    if (destination.requestTimeoutMs > 0) lacking.push("RequestTimeout");
    if (destination.idleTimeoutMs !== 0) lacking.push("IdleTimeout");
    if (destination.retryOn.length > 0) lacking.push("RetryOn");
    if (destination.retryOnStatuses.length > 0) lacking.push("RetryOnStatusCodes");
  }
  if (splits.some((split) => split.requestHeaders || split.responseHeaders)) {
    lacking.push("the header changes of a split");
  }
  return lacking;
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
