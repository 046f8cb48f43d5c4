/**
 * Adds, sets and removes headers of requests and responses, on a listener and on each of its routes.
 *
 * @module
 */

import * as v from "valibot";
import type { HeaderChange, Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const Name = v.pipe(v.string(), v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is no header's name"));
const Values = v.record(Name, v.string());
const Changes = v.strictObject({
  set: v.optional(Values),
  add: v.optional(Values),
  remove: v.optional(v.array(Name)),
});
const Config = v.strictObject({
  request: v.optional(Changes),
  response: v.optional(Changes),
});
type Config = v.InferOutput<typeof Config>;

export default {
  name: "header_rules",
  api: 1,
  phase: "filter",
  config: Config,
  routeConfig: Config,
  create(_host, config): Plugin<Config> {
    const own = rulesOf(config);
    return {
      onRequest({ request, routeConfig }, next) {
        const route = routeConfig && rulesOf(routeConfig);
        let changed = own.request ? request.with({ headers: own.request }) : request;
        if (route?.request) changed = changed.with({ headers: route.request });
        if (!own.response && !route?.response) return next({ request: changed });
        return next({
          request: changed,
          // From the inside out: what the listener says comes last.
          response(response) {
            const inner = route?.response ? response.with({ headers: route.response }) : response;
            return own.response ? inner.with({ headers: own.response }) : inner;
          },
        });
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof Config>;

interface Rules {
  readonly request: HeaderChange | undefined;
  readonly response: HeaderChange | undefined;
}

function rulesOf({ request, response }: Config): Rules {
  return { request: ruleOf(request), response: ruleOf(response) };
}

function ruleOf(changes: Config["request"]): HeaderChange | undefined {
  if (!changes) return undefined;
  const { set, add, remove } = changes;
  return { ...(set && { set }), ...(add && { add }), ...(remove && { remove }) };
}
