/**
 * Allows cross-origin requests of browsers as configured (Fetch 3.2): answers preflight requests and adds
 * the CORS headers to responses. It runs before authentication, since a preflight request has no
 * credentials.
 *
 * @module
 */

import * as v from "valibot";
import type { HttpRequest, HttpResponse, Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const Token = v.pipe(v.string(), v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is no token"));
const Origin = v.pipe(
  v.string(),
  v.regex(
    /^(?:\*|null|[a-z][a-z0-9+.-]*:\/\/[^\s/*]*\*?[^\s/*]*)$/,
    'is no origin like "https://shop.example" or "https://*.shop.example", with one * at most',
  ),
);
const Config = v.pipe(
  v.strictObject({
    origins: v.pipe(v.array(Origin), v.minLength(1)),
    methods: v.optional(v.array(Token), []),
    /** Request headers that a page may send. */
    headers: v.optional(v.array(Token), []),
    /** Response headers that a page may read. */
    expose: v.optional(v.array(Token), []),
    maxAgeSeconds: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0))),
    credentials: v.optional(v.boolean(), false),
  }),
  v.forward(
    v.check(
      ({ origins, credentials }) => !(credentials && origins.includes("*")),
      'lets any page act as its reader where origins has "*"; name the origins',
    ),
    ["credentials"],
  ),
);

export default {
  name: "cors",
  api: 1,
  phase: "guard",
  config: Config,
  create(host, { origins, methods, headers, expose, maxAgeSeconds, credentials }): Plugin {
    const answered = host.stats.counter("preflights", {
      help: "Preflight requests that were answered by the plugin",
    });
    const patterns = origins.map(patternOf);
    const preflight = {
      ...(methods.length > 0 && { "access-control-allow-methods": methods.join(",") }),
      ...(headers.length > 0 && { "access-control-allow-headers": headers.join(",") }),
      ...(maxAgeSeconds !== undefined && { "access-control-max-age": `${maxAgeSeconds}` }),
    };
    const exposed = {
      ...(expose.length > 0 && { "access-control-expose-headers": expose.join(",") }),
    };
    const originHeaders = (origin: string) => ({
      "access-control-allow-origin": origin,
      ...(credentials && { "access-control-allow-credentials": "true" }),
    });
    return {
      onRequest({ request }, next) {
        const origin = request.headers.get("origin");
        if (origin === undefined || !patterns.some((matches) => matches(origin))) {
          // Without a matching origin the response is unchanged, but a cache must not serve it to other origins.
          return next({ response: variesByOrigin });
        }
        if (isPreflight(request)) {
          answered.add(1);
          return host.reply(200, { ...originHeaders(origin), ...preflight, vary: "origin" });
        }
        return next({
          response: (response) =>
            variesByOrigin(response.with({
              headers: { remove: CORS_HEADERS, set: { ...originHeaders(origin), ...exposed } },
            })),
        });
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

/** Headers of the application are removed, since they would add to what is allowed here. */
const CORS_HEADERS = ["access-control-allow-credentials", "access-control-expose-headers"];

function isPreflight({ method, headers }: HttpRequest): boolean {
  return method === "OPTIONS" && (headers.get("access-control-request-method") ?? "") !== "";
}

function patternOf(origin: string): (given: string) => boolean {
  const star = origin.indexOf("*");
  if (star < 0) return (given) => given === origin;
  const [before, after] = [origin.slice(0, star), origin.slice(star + 1)];
  // `*` matches one character or more.
  const least = origin.length;
  return (given) => given.length >= least && given.startsWith(before) && given.endsWith(after);
}

function variesByOrigin(response: HttpResponse): HttpResponse {
  const names = response.headers.all("vary").join(",").toLowerCase().split(/[\s,]+/);
  if (names.includes("origin") || names.includes("*")) return response;
  return response.with({ headers: { add: { vary: "origin" } } });
}
