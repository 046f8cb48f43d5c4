/**
 * What the requests of one listener have in common.
 *
 * @module
 */

import type { RequestHead } from "../../http/mod.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import type { AuthorizeMode, ExposedPathRule } from "../caller/authorize.ts";
import type { ListenerFacts } from "../caller/downstream.ts";
import type { HttpStats } from "../observe/http_stats.ts";
import type { RequestRoute } from "../upstream/request_pools.ts";

export interface HttpListener {
  readonly front: ListenerFacts;
  readonly authorizer: AuthorizeMode;
  /** Which plugins verify tokens before a request is judged, where some do; absent: none ever do. */
  readonly tokens?: string;
  /** In place of the authorizer. */
  readonly exposed?: ExposedPathRule;
  /** Where a request goes, as it is sent on; undefined: there is no such place. */
  routeOf(request: Pick<RequestHead, "authority">): RequestRoute | undefined;
  readonly stats: HttpStats;
  /** Those in force. */
  rules(): HttpRules;
}
