/** Rewrites the path of requests: replaces a prefix, or the whole path. The query stays. @module */

import * as v from "valibot";
import type { Plugin, PluginDefinition } from "../../src/plugin/api.ts";

/** A path whose characters need no escapes, so that it has only one form. */
const TARGET = /^\/(?:[\w.~!$&'()*+,:;=@[\]/-]|%[0-9A-Fa-f]{2})*(?:\?[\x21\x22\x24-\x7e]*)?$/;
const HAS_DOTS = /^[^?]*\/(?:\.|%2e){1,2}(?:[;/?]|$)/i;
/** A dot segment, which path resolution removes. */
const IS_DOTS = /^(?:\.|%2e){1,2}(?:[;/?\\]|$)/i;

const Config = v.pipe(
  v.strictObject({
    prefix: v.optional(v.pipe(v.string(), v.startsWith("/", "must begin with /"))),
    ignoreCase: v.optional(v.boolean(), false),
    to: v.optional(v.pipe(
      v.string(),
      v.regex(TARGET, "must begin with / and have escapes where a path needs them"),
      v.check((to) => !HAS_DOTS.test(to), "has a segment of dots"),
    )),
  }),
  v.check(({ prefix, to }) => prefix === undefined || to !== undefined, "has a prefix, and no to"),
);
type Config = v.InferOutput<typeof Config>;

export default {
  name: "path_rewrite",
  api: 1,
  phase: "filter",
  config: Config,
  /** Replaces the configuration of the listener. */
  routeConfig: Config,
  create(host, config): Plugin<Config> {
    return {
      onRequest({ request, routeConfig = config }, next) {
        const path = rewritten(request.path, routeConfig);
        if (path === undefined) return next();
        return path === "" ? host.reply(400) : next({ request: request.with({ path }) });
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof Config>;

/** `undefined`: the path stays. `""`: the new path would leave `to`. */
function rewritten(target: string, { prefix, ignoreCase, to }: Config): string | undefined {
  // The request target `*` is not a path.
  if (to === undefined || !target.startsWith("/")) return undefined;
  const mark = target.indexOf("?");
  const end = mark < 0 ? target.length : mark;
  if (prefix === undefined) return to + target.slice(end);
  const begin = target.slice(0, Math.min(prefix.length, end));
  const isThere = begin === prefix || ignoreCase && begin.toLowerCase() === prefix.toLowerCase();
  if (!isThere) return undefined;
  const isCut = !prefix.endsWith("/") && target[prefix.length] !== "/" && !to.includes("?");
  // As in Consul: with `to` of `/` the result must not begin with `//`.
  const from = prefix.length + (to === "/" && target[prefix.length] === "/" ? 1 : 0);
  const path = to + target.slice(from);
  // A cut inside a segment may leave a dot segment: `..` of `/old..` was none before.
  return isCut && IS_DOTS.test(path.slice(to.lastIndexOf("/") + 1)) ? "" : path;
}
