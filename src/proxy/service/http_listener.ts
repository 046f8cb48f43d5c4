/**
 * The common part of the requests of one listener. One object for the life of the listener; values that
 * change with a snapshot are read when they are needed.
 *
 * @module
 */

import type { RequestHead } from "../../http/mod.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import type { AuthorizeMode, ExposedPathRule } from "../caller/authorize.ts";
import type { ListenerFacts } from "../caller/listener_facts.ts";
import type { HttpStats } from "../observe/http_stats.ts";
import type { ExchangeObserver } from "../observe/observers.ts";
import type { RequestRoute } from "../upstream/request_pools.ts";

export interface HttpListener {
  readonly facts: ListenerFacts;
  readonly authorizeMode: AuthorizeMode;
  /** Key of the plugins that verify tokens before a request is judged; absent: none ever do. */
  readonly tokens?: string;
  /** Judges by a path in place of intentions. */
  readonly exposed?: ExposedPathRule;
  /** The route of a request; `undefined`: there is none. */
  routeOf(request: Pick<RequestHead, "authority">): RequestRoute | undefined;
  readonly stats: HttpStats;
  readonly observers: Required<ExchangeObserver>;
  /** The rules in force. */
  rules(): HttpRules;
}
