/**
 * Redirects callers to another scheme, host, port or path. The first matching rule answers the request; a
 * rule that would redirect to the same URL does not match.
 *
 * @module
 */

import * as v from "valibot";
import type { HttpRequest, Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const Path = v.pipe(
  v.string(),
  v.regex(
    /^\/[\x21\x24-\x7e]*(?:\?[\x21\x24-\x7e]*)?$/,
    "begins with / and has no space and no # in it",
  ),
);
const Prefix = v.pipe(
  v.string(),
  v.regex(/^\/[\x21\x24-\x3e\x40-\x7e]*$/, "is no beginning of a path"),
);
const Host = v.pipe(
  v.string(),
  v.regex(/^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)$/, "is no host without a port"),
);
const Rule = v.pipe(
  v.strictObject({
    from: v.optional(
      v.strictObject({
        host: v.optional(Host),
        path: v.optional(Prefix),
        prefix: v.optional(Prefix),
      }),
      {},
    ),
    to: v.pipe(
      v.strictObject({
        scheme: v.optional(v.picklist(["http", "https"])),
        host: v.optional(Host),
        port: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(65_535))),
        path: v.optional(Path),
        prefix: v.optional(Prefix),
      }),
      v.check((to) => Object.keys(to).length > 0, "leads nowhere"),
      v.check(({ path, prefix }) => path === undefined || prefix === undefined, "has two paths"),
    ),
    status: v.optional(v.picklist([301, 302, 303, 307, 308]), 301),
    stripQuery: v.optional(v.boolean(), false),
  }),
  v.check(
    ({ from, to }) => to.prefix === undefined || from.prefix !== undefined,
    "to.prefix takes the place of from.prefix, which is missing",
  ),
);
const Config = v.strictObject({ rules: v.pipe(v.array(Rule), v.maxLength(1_000)) });
type Config = v.InferOutput<typeof Config>;
type Rule = v.InferOutput<typeof Rule>;

export default {
  name: "redirect",
  api: 1,
  phase: "filter",
  config: Config,
  /** Rules of the route come before those of the listener. */
  routeConfig: Config,
  create(host, { rules }): Plugin<Config> {
    return {
      onRequest({ request, routeConfig }, next) {
        const found = ruleFor(request, routeConfig?.rules) ?? ruleFor(request, rules);
        if (!found) return next();
        return host.reply(found.rule.status, { location: found.location });
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof Config>;

/** The URL that the caller requested. */
interface RequestUrl {
  /** `""`: unknown. */
  readonly scheme: string;
  readonly host: string;
  readonly port: string;
  readonly path: string;
  /** With the `?`. */
  readonly query: string;
}

function ruleFor(request: HttpRequest, rules: readonly Rule[] = []) {
  if (rules.length === 0) return undefined;
  const url = requestUrlOf(request);
  // Without a host only a path could be sent, which a browser may read as a host.
  if (!url) return undefined;
  const here = urlOf(url);
  for (const rule of rules) {
    const { host, path, prefix } = rule.from;
    if (host !== undefined && host.toLowerCase() !== url.host.toLowerCase()) continue;
    if (path !== undefined && path !== url.path) continue;
    if (prefix !== undefined && !url.path.startsWith(prefix)) continue;
    const location = urlOf(changed(url, rule));
    if (location !== here) return { rule, location };
  }
  return undefined;
}

const AUTHORITY = /^(\[[^\]]*\]|[^:]+)(?::(\d*))?$/;

function requestUrlOf({ scheme, authority, path, headers }: HttpRequest): RequestUrl | undefined {
  const [, host, port = ""] = AUTHORITY.exec(authority) ?? [];
  if (host === undefined) return undefined;
  // A proxy that terminated TLS forwards the original scheme.
  const forwarded = headers.get("x-forwarded-proto");
  const known = forwarded === "http" || forwarded === "https" ? forwarded : scheme;
  const mark = path.indexOf("?");
  const end = mark < 0 ? path.length : mark;
  return { scheme: known, host, port, path: path.slice(0, end), query: path.slice(end) };
}

function changed(url: RequestUrl, { from, to, stripQuery }: Rule): RequestUrl {
  const scheme = to.scheme ?? url.scheme;
  const query = stripQuery ? "" : url.query;
  const where = { scheme, host: to.host ?? url.host, port: portOf(url, to), query };
  if (to.path !== undefined) {
    const path = to.path;
    // A query in `to.path` replaces that of the request.
    return path.includes("?") ? { ...where, path, query: "" } : { ...where, path };
  }
  if (to.prefix === undefined) return { ...where, path: url.path };
  return { ...where, path: to.prefix + url.path.slice(from.prefix?.length) };
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = { http: "80", https: "443" };

function portOf({ scheme, port }: RequestUrl, to: Rule["to"]): string {
  if (to.port !== undefined) return `${to.port}`;
  if (to.host !== undefined) return "";
  // The default port of one scheme does not belong to the other.
  const isOfOther = to.scheme === "https" ? "80" : "443";
  const isOther = to.scheme !== undefined && to.scheme !== scheme;
  return isOther && port === isOfOther ? "" : port;
}

function urlOf({ scheme, host, port, path, query }: RequestUrl): string {
  const shown = port === "" || port === DEFAULT_PORTS[scheme] ? "" : `:${port}`;
  return `${scheme === "" ? "" : `${scheme}:`}//${host}${shown}${path}${query}`;
}
