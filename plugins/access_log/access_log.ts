/**
 * An access log of one listener in a format of its own: one line for each request that reached the plugins.
 * The proxy defines the fields of a line and where lines are written.
 *
 * @module
 */

import * as v from "valibot";
import type { ExchangeSummary, Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const ANY_STATUS = 100;
const NOT_ANSWERED = 599;

const Config = v.strictObject({
  /** The operators of Consul's `TextFormat` and `JSONFormat`; the default format is Consul's. */
  format: v.optional(v.union([
    v.strictObject({ text: v.pipe(v.string(), v.minLength(1)) }),
    v.strictObject({ json: v.record(v.string(), v.unknown()) }),
  ])),
  /** Only requests that match all conditions are logged. */
  when: v.optional(
    v.strictObject({
      /** The lowest status that is logged. A request without a response counts as 599. */
      minStatus: v.optional(
        v.pipe(v.number(), v.integer(), v.minValue(100), v.maxValue(599)),
        ANY_STATUS,
      ),
      minDurationMs: v.optional(v.pipe(v.number(), v.minValue(0)), 0),
      /** Paths without a query, such as those of health checks. */
      exceptPaths: v.optional(
        v.array(v.pipe(v.string(), v.startsWith("/"), v.excludes("?"))),
        [],
      ),
    }),
    {},
  ),
});

export default {
  name: "access_log",
  api: 1,
  phase: "guard",
  config: Config,
  create(host, { format, when: { minStatus, minDurationMs, exceptPaths } }): Plugin {
    const write = host.accessLog(
      format === undefined ? "" : "text" in format ? format.text : format.json,
    );
    const isAll = minStatus === ANY_STATUS && minDurationMs === 0;
    const onEnd = isAll ? write : (ended: ExchangeSummary) => {
      const status = ended.status || NOT_ANSWERED;
      if (status >= minStatus && ended.durationMs >= minDurationMs) write(ended);
    };
    const except = new Set(exceptPaths);
    return {
      onRequest({ request, exchange }, next) {
        if (except.size === 0 || !except.has(withoutQuery(request.path))) exchange.onEnd(onEnd);
        return next();
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

function withoutQuery(path: string): string {
  const at = path.indexOf("?");
  return at < 0 ? path : path.slice(0, at);
}
