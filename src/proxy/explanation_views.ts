/**
 * Parts of an explanation that are made of one thing each.
 *
 * @module
 */

import type { Generation, Route } from "../plugin/mod.ts";
import type { Limiter } from "./admission.ts";
import { type Explanation, type LimitsView, PLAIN_PLUGINS, type RouteView } from "./explanation.ts";
import type { Outbound } from "./outbound.ts";

export function limitsOf(outbound: Outbound | undefined): LimitsView | null {
  if (!outbound) return null;
  const { connections, pending, requests, part: { http } } = outbound.upstream;
  const places = ({ taken, limit }: Limiter) => ({ taken, limit });
  return {
    ...{ connections: places(connections), pending: places(pending) },
    requests: http && places(requests),
  };
}

/** In words; what is wanted in a header may be a token. */
export function routeView({ name, service, match }: Route): RouteView {
  if (!match) return { name, service, matches: "everything" };
  const { path, methods, headers, query } = match;
  const star = path?.kind === "prefix" ? "*" : "";
  const words = [
    methods.join("|"),
    path ? `${path.kind === "regex" ? "~" : ""}${path.value}${star}` : "",
    ...headers.map(({ name }) => `header ${name}`),
    ...query.map(({ name }) => `query ${name}`),
  ];
  return { name, service, matches: words.filter((word) => word !== "").join(" ") || "everything" };
}

export function unknownOf(
  plugins: Explanation["plugins"],
  generation: Generation | undefined,
): readonly string[] {
  const names = (isWanted: (phase: string) => boolean) =>
    plugins.filter(({ name, phase }) => isWanted(phase) && !PLAIN_PLUGINS.has(name))
      .map(({ name }) => name).join(", ");
  const guards = names((phase) => phase === "guard");
  const others = names((phase) => phase !== "guard");
  return [
    ...generation?.looksAtConnections ? ["Its plugins may refuse the connection."] : [],
    ...guards ? [`${guards}: may answer, or change the request before its route is known.`] : [],
    ...others ? [`${others}: may answer, or change the request and its response.`] : [],
  ];
}
