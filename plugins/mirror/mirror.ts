/**
 * Sends copies of requests to another service and discards the responses. A copy is sent when the response
 * to its request has begun, so that it does not delay the request.
 *
 * @module
 */

import * as v from "valibot";
import type {
  Answer,
  Call,
  Host,
  HttpRequest,
  Next,
  Plugin,
  PluginDefinition,
  RequestArgs,
} from "../../src/plugin/api.ts";

const Config = v.strictObject({
  target: v.pipe(v.string(), v.nonEmpty()),
  percent: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(100)), 100),
  limitBytes: v.optional(
    v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(256 * 1_024)),
    64 * 1_024,
  ),
  timeoutMs: v.optional(
    v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(60_000)),
    15_000,
  ),
});
type Config = v.InferOutput<typeof Config>;

/** Requests from their head to the end of the response to their copy. */
const MAX_UNDER_WAY = 128;

export default {
  name: "mirror",
  api: 1,
  phase: "filter",
  config: Config,
  create(host, config): Plugin {
    const mirror = new Mirror(host, config);
    return { onRequest: (args, next) => mirror.pass(args, next) };
  },
} satisfies PluginDefinition<typeof Config>;

class Mirror {
  readonly #host: Host;
  readonly #config: Config;
  readonly #call: Call;
  readonly #copies;
  #underWay = 0;

  constructor(host: Host, config: Config) {
    this.#host = host;
    this.#config = config;
    this.#call = host.callee(config.target);
    this.#copies = host.stats.counter("copies", {
      help: "Copies of requests sent to the mirror, by result",
      labels: { result: ["answered", "failed", "overflow", "body"] },
    });
  }

  pass({ request, exchange }: RequestArgs, next: Next): Answer {
    const { percent, limitBytes } = this.#config;
    // Upgraded connections cannot be copied.
    if (request.upgrade !== "" || this.#host.random() * 100 >= percent) return next();
    if ((request.body?.length ?? 0) > limitBytes) return this.#leftOut("body", next);
    if (this.#underWay >= MAX_UNDER_WAY) return this.#leftOut("overflow", next);
    this.#underWay++;
    let isSent = false;
    exchange.onEnd(() => {
      if (!isSent) this.#underWay--;
    });
    request.body?.keep(limitBytes);
    return next({
      response: (response) => {
        // Requests of callers that left are not copied.
        if (response.failure?.code === "downstream_reset") return response;
        isSent = true;
        void this.#send(request);
        return response;
      },
    });
  }

  #leftOut(result: "body" | "overflow", next: Next): Answer {
    this.#copies.add(1, { result });
    return next();
  }

  /** Never rejects. */
  async #send({ method, path, authority, headers, body }: HttpRequest): Promise<void> {
    const { timeoutMs } = this.#config;
    try {
      const copy = { method, path, authority: shadowOf(authority), headers, body };
      const { failure } = await this.#call(copy, { timeoutMs });
      this.#copies.add(1, { result: failure ? "failed" : "answered" });
    } catch {
      // Not copied: the body was incomplete when the response began, or longer than the limit.
      this.#copies.add(1, { result: "body" });
    } finally {
      this.#underWay--;
    }
  }
}

/** Envoy's name of the copy: `db.example-shadow:8080`. An IPv6 address stays unchanged. */
function shadowOf(authority: string): string {
  const [, host = "", port = ""] = /^(.*?)(:\d*)?$/.exec(authority) ?? [];
  return host === "" || host.startsWith("[") ? authority : `${host}-shadow${port}`;
}
