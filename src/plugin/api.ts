/**
 * The contract between the proxy and a plugin: types of requests, responses and connections, and of what the
 * proxy lends. `postern plugin types` prints it.
 *
 * A plugin is a module whose default export is a {@link PluginDefinition}; importing it has no effect.
 * Plugins are layers around a request, ordered by their {@link Phase}: the request passes them on its way in,
 * the response on its way out. Values are immutable: a hook passes a changed copy to `next`, or returns it.
 *
 * @module
 */

import type { Host, Refusal } from "./host_api.ts";
import type {
  Connection,
  Endpoint,
  HttpRequest,
  HttpResponse,
  RequestArgs,
  Route,
} from "./message_api.ts";
export type * from "./host_api.ts";
export type * from "./message_api.ts";

/**
 * The position of a layer, outermost first; within a phase the order is that of the configuration. `guard`:
 * before the route is known. `route`: picks the route, and is the first on it. `filter`: on the route.
 * `retry`: may call `next` again. `attempt`: around each attempt. A listener has at most one plugin of
 * `route`, and one of `retry`.
 */
export type Phase = "guard" | "route" | "filter" | "retry" | "attempt";

/** Standard Schema 1 (standardschema.dev), which valibot, zod and arktype implement. */
export interface Schema<Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly validate: (value: unknown) => unknown;
    readonly types?: { readonly output: Output } | undefined;
  };
}
export type OutputOf<S extends Schema> = NonNullable<S["~standard"]["types"]>["output"];

/** `export default { ... } satisfies PluginDefinition<typeof Config>`. */
export interface PluginDefinition<C extends Schema = Schema, R extends Schema = Schema> {
  /** In `snake_case`: the key in configuration, a part of its metric names, a field of its log lines. */
  readonly name: string;
  readonly api: 1;
  readonly phase: Phase;
  /** Configuration for a listener. Make it strict, so that a misspelled key is an error. */
  readonly config: C;
  /** Configuration for one route; absent: a route has none. On such a route a guard's hook is called again. */
  readonly routeConfig?: R;
  /** Called for each generation of configuration before it serves; takes at most 5 s. */
  create(host: Host, config: OutputOf<C>): Plugin<OutputOf<R>> | Promise<Plugin<OutputOf<R>>>;
}

/** A plugin at work. An absent hook costs nothing. */
export interface Plugin<R = unknown> {
  /** Called after a caller is authorized and before any byte is carried. Return a refusal, or nothing. */
  onConnection?(connection: Connection): Refusal | void | Promise<Refusal | void>;
  /**
   * Called around everything further in. `return next()` continues, `return next({ request, response })`
   * continues with changes, `return host.reply(...)` answers. Without `async` no promise is made.
   */
  onRequest?(args: RequestArgs<R>, next: Next): Answer;
  /** Phase `route` only. Called when routes changed; returns the function that picks a request's route. */
  onRoutes?(routes: readonly Route[]): FindRoute | Promise<FindRoute>;
  /** Called once, after the last exchange of the generation. */
  close?(): void | Promise<void>;
}

/** A response, or a promise of one. The result of `next` may be returned as it is, or awaited. */
export type Answer = HttpResponse | PromiseLike<HttpResponse>;
export type FindRoute = (request: HttpRequest) => Route | undefined;
/**
 * Continues inwards. Only phase `retry` may call it again, which abandons the response before. The answer
 * always comes: when the caller leaves first, it is the failure `downstream_reset`, and a further call throws.
 */
export type Next = (change?: Change) => Answer;
export interface Change {
  /** Continues with this request in place of the given one. */
  readonly request?: HttpRequest;
  /** Changes the response: like awaiting `next`, without a promise. */
  readonly response?: (response: HttpResponse) => Answer;
  /** Phase `retry`: endpoints that are not picked while there are others. */
  readonly avoid?: readonly Endpoint[];
  /**
   * Phases `route`, `filter` and `retry` at an upstream: continues to this target in place of the one that the
   * chain picks. The innermost layer that names one decides. A target that is not there is the failure
   * `target_not_found`.
   */
  readonly target?: Target;
  /** The failure is `response_timed_out` if no response began so long after the request was complete. */
  readonly timeoutMs?: number;
  /** Replaces the listener's limit for an exchange in which no byte moves. 0: no limit. */
  readonly idleTimeoutMs?: number;
}
/**
 * A target of an upstream, by as many of its names as tell it from the others. A subset or service that a
 * split leads to keeps its failover and balancing; a failover target is taken alone.
 */
export interface Target {
  /** Another HTTP upstream of this proxy, past its plugins, by name or id. Alone: as its last route leads. */
  readonly upstream?: string;
  readonly service?: string;
  /** `""`: the service without a subset. */
  readonly subset?: string;
  readonly datacenter?: string;
  /** Consul's id of the target, as `explain` shows it: `v2.db.default.default.dc1`. */
  readonly id?: string;
}
