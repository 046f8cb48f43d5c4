/**
 * Settings of a chain's routes as configuration of the plugins that implement them. A setting without a
 * plugin is named in a refusal: a route that loses one of its settings is another route.
 *
 * @module
 */

import { compileRegex } from "../../base/mod.ts";
import type { ChainRoute } from "../../snapshot/mod.ts";
import type { HeaderTexts, ResolvedRoute, RouteDestination, RouteMatch } from "../../chain/mod.ts";
import { DEFAULT_PATH_RULES, headerFault, normalizePath } from "../../http/mod.ts";

type PluginsByRoute =
  | ({ readonly kind: "taken" } & Pick<ChainRoute, "plugins" | "splits">)
  /** `reason` names the route and the setting that cannot be followed. */
  | { readonly kind: "refused"; readonly reason: string };

/** The conditions that Consul accepts in an entry. */
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
export function pluginsOfRoute(route: ResolvedRoute): PluginsByRoute {
  const faults = faultsOf(route);
  if (faults.length > 0) return { kind: "refused", reason: faults.join("; ") };
  const plugins = route.destination ? configsOf(route.destination, route.match) : {};
  const splits = route.splits.map(({ weight, resolver, ...changes }) => {
    const split = rulesOf(changes);
    if (Object.keys(split).length === 0) return { weight, resolver };
    const rules = { ...plugins["header_rules"], split };
    return { weight, resolver, plugins: { ...plugins, header_rules: rules } };
  });
  return { kind: "taken", plugins, splits };
}

function configsOf(
  destination: RouteDestination,
  match: RouteMatch | null,
): Readonly<Record<string, object>> {
  const all = {
    header_rules: rulesOf(destination),
    path_rewrite: rewriteOf(destination, match),
    retry: retryOf(destination),
    timeout: timeoutOf(destination),
  };
  const used = Object.entries(all).filter(([, config]) => Object.keys(config).length > 0);
  return Object.fromEntries(used);
}

type HeaderChanges = Pick<RouteDestination, "requestHeaders" | "responseHeaders">;

function rulesOf({ requestHeaders, responseHeaders }: HeaderChanges): object {
  return {
    ...requestHeaders && { request: requestHeaders },
    ...responseHeaders && { response: responseHeaders },
  };
}

/** A prefix route rewrites the matched prefix; any other route rewrites the whole path. */
function rewriteOf({ prefixRewrite: to }: RouteDestination, match: RouteMatch | null): object {
  if (to === "") return {};
  const path = match?.path ?? { kind: "prefix", value: "/" };
  if (path.kind !== "prefix") return { to };
  return { prefix: path.value, ...match?.ignoreCase && { ignoreCase: true }, to };
}

function retryOf(destination: RouteDestination): object {
  return {
    ...destination.retries > 0 && { numRetries: Math.min(destination.retries, MAX_RETRIES) },
    ...destination.retryOnConnectFailure && { retryOnConnectFailure: true },
    ...destination.retryOn.length > 0 && { retryOn: destination.retryOn },
    ...destination.retryOnStatuses.length > 0 &&
      { retryOnStatusCodes: destination.retryOnStatuses },
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

/** Settings of a route that cannot be followed, each with its place. */
function faultsOf(route: ResolvedRoute): readonly string[] {
  const { at, match, destination, splits } = route;
  const faults = [route, ...splits].flatMap(({ at, unknown }) =>
    unknown.map((member) => `${at}${member}: is not known here`)
  );
  const { path, headers = [], query = [] } = match ?? {};
  for (const { kind, value } of [...path ? [path] : [], ...headers, ...query]) {
    const compiled = kind === "regex" ? compileRegex(value) : undefined;
    if (compiled?.kind === "refused") faults.push(`${at}.Match.HTTP: ${compiled.reason}`);
  }
  if (destination) {
    const where = `${at}.Destination`;
    const { prefixRewrite: to, retryOn, retryOnStatuses } = destination;
    if (to !== "" && !isNormalPath(to)) {
      faults.push(
        `${where}.PrefixRewrite: ${JSON.stringify(to)} must be a path with nothing to normalise`,
      );
    }
    for (const what of retryOn.filter((one) => !RETRIED.has(one))) {
      faults.push(`${where}.RetryOn: ${JSON.stringify(what)} is not known`);
    }
    for (const code of retryOnStatuses) {
      if (Number.isInteger(code) && code >= 200 && code <= 599) continue;
      faults.push(`${where}.RetryOnStatusCodes: ${code} is no status of a response`);
    }
    faults.push(...headersFaults(where, destination));
  }
  return [...faults, ...splits.flatMap((split) => headersFaults(split.at, split))];
}

/** Its query may be any, where it has one. */
function isNormalPath(text: string): boolean {
  if (!text.startsWith("/") || /[^!-~]|%(?![0-9a-f]{2})/i.test(text)) return false;
  return normalizePath(text, DEFAULT_PATH_RULES) === text;
}

function headersFaults(at: string, of: HeaderChanges): readonly string[] {
  return [
    ...changesFaults(`${at}.RequestHeaders`, of.requestHeaders),
    ...changesFaults(`${at}.ResponseHeaders`, of.responseHeaders),
  ];
}

function changesFaults(at: string, changes: HeaderTexts | null): readonly string[] {
  if (!changes) return [];
  const { remove, set, add } = changes;
  const faults: string[] = [];
  const look = (member: string, name: string, value?: string) => {
    const fault = headerFault(name, value);
    if (fault) faults.push(`${at}.${member}[${JSON.stringify(name)}]: it ${fault}`);
  };
  for (const name of remove) look("Remove", name);
  for (const [name, value] of Object.entries(set)) look("Set", name, value);
  for (const [name, value] of Object.entries(add)) look("Add", name, value);
  return faults;
}
