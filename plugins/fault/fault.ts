/**
 * Injects faults to test callers: delays a share of the requests, or answers them with a status in place of
 * the application.
 *
 * @module
 */

import * as v from "valibot";
import type { HttpRequest, Plugin, PluginDefinition } from "../../src/plugin/api.ts";

/** A plugin that holds a request for 10 s counts as stuck. */
const MAX_DELAY_MS = 8_000;

const Percent = v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(100)), 100);
const Delay = v.strictObject({
  ms: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(MAX_DELAY_MS)),
  percent: Percent,
});
const Abort = v.union([
  v.strictObject({
    status: v.pipe(v.number(), v.integer(), v.minValue(200), v.maxValue(599)),
    percent: Percent,
  }),
  v.strictObject({
    grpcStatus: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(16)),
    percent: Percent,
  }),
], "must have either status, from 200 to 599, or grpcStatus, from 0 to 16");
type Abort = v.InferOutput<typeof Abort>;

const Config = v.strictObject({
  /** All these headers must be in the request, with that value or (`true`) any value. */
  when: v.optional(v.record(v.string(), v.union([v.string(), v.literal(true)])), {}),
  delay: v.optional(Delay),
  abort: v.optional(Abort),
});
type Config = v.InferOutput<typeof Config>;

export default {
  name: "fault",
  api: 1,
  phase: "filter",
  config: Config,
  /** Replaces the configuration of the listener. */
  routeConfig: Config,
  create(host, config): Plugin<Config> {
    const made = host.stats.counter("made", {
      help: "Requests that were delayed or aborted on purpose",
      labels: { kind: ["delay", "abort"] },
    });
    const isHit = (percent: number) => host.random() * 100 < percent;
    return {
      onRequest({ request, exchange, routeConfig }, next) {
        const { when, delay, abort } = routeConfig ?? config;
        if (!isMeant(request, when)) return next();
        const goOn = () => {
          if (!abort || !isHit(abort.percent)) return next();
          made.add(1, { kind: "abort" });
          const { status, headers, body } = answerOf(abort, request);
          return host.reply(status, headers, body);
        };
        if (!delay || !isHit(delay.percent)) return goOn();
        made.add(1, { kind: "delay" });
        return host.clock.sleep(delay.ms, exchange.signal).then(goOn);
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof Config>;

function isMeant({ headers }: HttpRequest, when: Config["when"]): boolean {
  for (const name in when) {
    const values = headers.all(name);
    const wanted = when[name];
    if (typeof wanted === "string" ? !values.includes(wanted) : values.length === 0) return false;
  }
  return true;
}

const TEXT = "fault filter abort";

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A gRPC client gets a gRPC status, any other caller an HTTP status. */
function answerOf(abort: Abort, { headers }: HttpRequest): Answer {
  if (!/^application\/grpc(?:[+;]|$)/.test(headers.get("content-type") ?? "")) {
    const status = "status" in abort ? abort.status : HTTP_STATUSES[abort.grpcStatus] ?? 500;
    return { status, headers: { "content-type": "text/plain" }, body: TEXT };
  }
  const status = "status" in abort ? GRPC_STATUSES[abort.status] ?? 2 : abort.grpcStatus;
  const fields = { "content-type": "application/grpc", "grpc-status": `${status}` };
  return { status: 200, headers: { ...fields, "grpc-message": TEXT }, body: "" };
}

/** HTTP statuses by gRPC status, as in Envoy. */
// deno-fmt-ignore -- one line shows the order
const HTTP_STATUSES = [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401];
/** gRPC statuses by HTTP status; others map to 2 (unknown), as in gRPC's mapping. */
const GRPC_STATUSES: Readonly<Record<number, number>> = {
  400: 13,
  401: 16,
  403: 7,
  404: 12,
  429: 14,
  502: 14,
  503: 14,
  504: 14,
};
