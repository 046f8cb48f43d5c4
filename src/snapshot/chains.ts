/**
 * Chains as they are made and looked at by those who do not follow them.
 *
 * @module
 */

import { DEFAULT_ROUTE } from "../chain/mod.ts";
import type { Content } from "./parts.ts";
import type { ChainPart, Resolver } from "./snapshot.ts";

const ONLY = "only";

/** A chain with nothing to choose. */
export function oneWay(resolver: Resolver, service: string): Content<ChainPart> {
  const splits = [{ weight: 1, resolver: ONLY }];
  const route = { name: DEFAULT_ROUTE, service, match: null, splits, plugins: {} };
  return { routes: [route], resolvers: { [ONLY]: resolver } };
}

/** Of all its resolvers, each once. */
export function targetKeysOf(chain: ChainPart | undefined): readonly string[] {
  const resolvers = Object.values(chain?.resolvers ?? {});
  return [...new Set(resolvers.flatMap(({ targets }) => targets))];
}
