/**
 * Example: logs each request that changes something: caller, resource and result. Values of the query, and of
 * headers that are not configured, are never written.
 *
 * @module
 */

import * as v from "valibot";
import type { HttpRequest, Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const Config = v.strictObject({
  methods: v.optional(v.array(v.string()), ["POST", "PUT", "PATCH", "DELETE"]),
  /** Request headers that are written unchanged. */
  show: v.optional(v.array(v.string()), []),
  /** Headers that are written as present, without their values. */
  redact: v.optional(v.array(v.string()), ["authorization", "cookie"]),
});

export default {
  name: "audit_log",
  api: 1,
  phase: "guard",
  config: Config,
  create(host, { methods, show, redact }): Plugin {
    return {
      onRequest({ request, exchange }, next) {
        if (!methods.includes(request.method)) return next();
        const facts = {
          id: exchange.id,
          source: exchange.connection.source?.uri ?? exchange.connection.remoteAddress,
          method: request.method,
          path: shownPath(request.path),
          ...headersOf(request),
        };
        exchange.onEnd(({ status, code }) => host.log.info("audit", { ...facts, status, code }));
        return next();
      },
    };

    function headersOf({ headers }: HttpRequest): Record<string, string> {
      const shown: Record<string, string> = {};
      for (const name of show) {
        const value = headers.get(name);
        if (value !== undefined) shown[name] = value;
      }
      for (const name of redact) if (headers.get(name) !== undefined) shown[name] = "[redacted]";
      return shown;
    }
  },
} satisfies PluginDefinition<typeof Config>;

/** Names in the query stay; values, and parts that may be either, are redacted. */
function shownPath(path: string): string {
  const [before = "", query] = path.split("?");
  if (query === undefined) return before;
  const pairs = query.split("&").map((pair) => pair.replace(/^([^=]*=)?.*$/, "$1[redacted]"));
  return `${before}?${pairs.join("&")}`;
}
