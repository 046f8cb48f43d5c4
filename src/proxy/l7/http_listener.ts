/**
 * What the requests of one listener have in common.
 *
 * @module
 */

import type { RequestHead } from "../../http/mod.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import type { AuthorizeMode, ExposedPathRule } from "../authorize.ts";
import type { ListenerFacts } from "../downstream.ts";
import type { HttpStats } from "./http_stats.ts";
import type { Route } from "./request_pools.ts";

export interface HttpListener {
  readonly front: ListenerFacts;
  readonly authorizer: AuthorizeMode;
  /** Which plugins verify tokens before a request is judged, where some do; absent: none ever do. */
  readonly tokens?: string;
  /** In place of the authorizer. */
  readonly exposed?: ExposedPathRule;
  /** Where a request goes, as it is sent on; undefined: there is no such place. */
  routeOf(request: Pick<RequestHead, "authority">): Route | undefined;
  readonly stats: HttpStats;
  /** Those in force. */
  rules(): HttpRules;
}
