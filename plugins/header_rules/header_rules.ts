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
/** What a request needs of them is made once, with the generation. */
const Rules = v.pipe(
  v.strictObject({ request: v.optional(Changes), response: v.optional(Changes) }),
  v.transform(({ request, response }): Rules => ({
    request: request && changeOf(request),
    response: response && changeOf(response),
  })),
);

interface Rules {
  readonly request: HeaderChange | undefined;
  readonly response: HeaderChange | undefined;
}

function changeOf({ set, add, remove }: v.InferOutput<typeof Changes>): HeaderChange {
  return { ...(set && { set }), ...(add && { add }), ...(remove && { remove }) };
}

export default {
  name: "header_rules",
  api: 1,
  phase: "filter",
  config: Rules,
  routeConfig: Rules,
  create(_host, own): Plugin<Rules> {
    return {
      onRequest({ request, routeConfig: route }, next) {
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
} satisfies PluginDefinition<typeof Rules, typeof Rules>;
