/**
 * What the requests of one listener have in common.
 *
 * @module
 */

import type { RequestHead } from "../../http/mod.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import type { Authorizer, ExposedPath } from "../authorize.ts";
import type { Front } from "../downstream.ts";
import type { HttpStats } from "./http_stats.ts";
import type { Route } from "./request_ways.ts";

export interface HttpListener {
  readonly front: Front;
  readonly authorizer: Authorizer;
  /** Which plugins verify tokens before a request is judged, where some do; absent: none ever do. */
  readonly tokens?: string;
  /** In place of the authorizer. */
  readonly exposed?: ExposedPath;
  /** Where a request goes, as it is sent on; undefined: there is no such place. */
  routeOf(request: Pick<RequestHead, "authority">): Route | undefined;
  readonly stats: HttpStats;
  /** Those in force. */
  rules(): HttpRules;
}
