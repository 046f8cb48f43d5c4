/**
 * Finds the route of a request: the first one whose conditions all hold. It has no configuration; the routes
 * are those of the upstream's discovery chain.
 *
 * @module
 */

import * as v from "valibot";
import type { Host, HttpRequest, Plugin, PluginDefinition, Route } from "../../src/plugin/api.ts";
import { conditionsOf, type RouteCondition } from "./conditions.ts";
import { PathIndex } from "./path_index.ts";

const Config = v.strictObject({});

export default {
  name: "route_match",
  api: 1,
  phase: "route",
  config: Config,
  create(host): Plugin {
    return { onRoutes: (routes) => finderOf(routes, host) };
  },
} satisfies PluginDefinition<typeof Config>;

async function finderOf(
  routes: readonly Route[],
  host: Host,
): Promise<(request: HttpRequest) => Route | undefined> {
  const asWritten = new PathIndex();
  const lowered = new PathIndex();
  /** Routes for any path, and those with a regex, which is one of their conditions since it costs the most. */
  const others: number[] = [];
  const conditions: (readonly RouteCondition[])[] = [];
  for (const [place, { match }] of routes.entries()) {
    const path = match?.path ?? null;
    const all = match ? await conditionsOf(match, host) : [];
    if (path === null) others.push(place);
    else if (path.kind === "regex") {
      const matches = await host.regex(path.value);
      // Cheap conditions come first.
      all.push((_request, wanted) => matches(wanted));
      others.push(place);
    } else if (match?.ignoreCase) lowered.add(place, path.kind, lowerAscii(path.value));
    else asWritten.add(place, path.kind, path.value);
    conditions.push(all);
  }
  return (request) => {
    const path = pathOf(request.path);
    const fits = (place: number) => conditions[place]?.every((is) => is(request, path)) === true;
    let best = routes.length;
    if (!asWritten.isEmpty) best = asWritten.first(path, best, fits);
    if (!lowered.isEmpty) best = lowered.first(lowerAscii(path), best, fits);
    for (const place of others) {
      if (place >= best) break;
      if (fits(place)) best = place;
    }
    return routes[best];
  };
}

/** The path without query and fragment. */
function pathOf(target: string): string {
  const end = target.search(/[?#]/);
  return end < 0 ? target : target.slice(0, end);
}

/** ASCII only, like Envoy's `case_sensitive: false`: other letters have no unique lower case. */
function lowerAscii(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
