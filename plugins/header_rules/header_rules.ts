/**
 * Adds, sets and removes headers of requests and responses, on a listener and on each of its routes.
 *
 * @module
 */

import * as v from "valibot";
import type { HeaderChange, Host, Plugin, PluginDefinition } from "../../src/plugin/api.ts";
import { Changes } from "./changes.ts";

const Name = v.pipe(v.string(), v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is no header's name"));
const Value = v.pipe(v.string(), v.regex(/^[\t -~\x80-\uffff]*$/, "has a control character"));
const Values = v.record(Name, Value);
const Change = v.pipe(
  v.strictObject({
    set: v.optional(Values),
    add: v.optional(Values),
    remove: v.optional(v.array(Name)),
  }),
  v.transform(({ set, add, remove }): HeaderChange => ({
    ...(set && { set }),
    ...(add && { add }),
    ...(remove && { remove }),
  })),
);
const MESSAGES = { request: v.optional(Change), response: v.optional(Change) };
const Config = v.strictObject(MESSAGES);
type Config = v.InferOutput<typeof Config>;
/** Changes of the route, and of its chosen `split`; those of the split come first in both directions. */
const RouteConfig = v.pipe(
  v.strictObject({ ...MESSAGES, split: v.optional(Config) }),
  v.transform(({ split, ...route }) => new Rules(split ? [split, route] : [route])),
);

type Made = Readonly<Record<keyof Config, readonly Changes[]>>;

/** Changes in order. They need the host, so those of a route are made at its first request. */
class Rules {
  readonly #written: readonly Config[];
  #made: Made | undefined;

  constructor(written: readonly Config[]) {
    this.#written = written;
  }

  made(host: Host): Made {
    if (this.#made) return this.#made;
    const of = (message: keyof Config) =>
      this.#written.flatMap(({ [message]: written }) =>
        written ? [new Changes(written, host)] : []
      );
    return this.#made = { request: of("request"), response: of("response") };
  }
}

const NOTHING: Made = { request: [], response: [] };

export default {
  name: "header_rules",
  api: 1,
  phase: "filter",
  config: Config,
  routeConfig: RouteConfig,
  create(host, config): Plugin<Rules> {
    const own = new Rules([config]).made(host);
    return {
      onRequest(args, next) {
        const route = args.routeConfig?.made(host) ?? NOTHING;
        let { request } = args;
        for (const changes of own.request) request = changes.ofRequest(args, request);
        for (const changes of route.request) request = changes.ofRequest(args, request);
        if (own.response.length + route.response.length === 0) return next({ request });
        return next({
          request,
          // From the inside out: the changes of the listener come last.
          response(response) {
            let changed = response;
            for (const changes of route.response) {
              changed = changes.ofResponse(args, request, changed);
            }
            for (const changes of own.response) {
              changed = changes.ofResponse(args, request, changed);
            }
            return changed;
          },
        });
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof RouteConfig>;
