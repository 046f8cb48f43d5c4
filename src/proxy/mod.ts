/** Listeners as readable stage lists. @module */
export {
  FIRST_UPSTREAM_COLUMN,
  MAX_UPSTREAMS,
  PROCESS_COLUMN,
  SharedCounts,
  UPSTREAM_COLUMNS,
} from "./core/admission.ts";
export type { AttemptHandler } from "./upstream/attempt.ts";
export type { Context, RemoteAuthorize } from "./core/context.ts";
export type { PublishEffect } from "./core/live_connections.ts";
export type { TakeLine } from "./observe/access_logger.ts";
export type { AccessRecord, TakeAccessRecord } from "./observe/access_records.ts";
export type { FinishedSpan, TakeSpan } from "./observe/tracer.ts";
export { ExchangeValue } from "./service/exchange_value.ts";
export { PluginLayers, type PluginResponseSink } from "./service/plugin_layers.ts";
export { OutgoingCall } from "./service/outgoing_call.ts";
export { takeForm } from "./service/stages.ts";
export type { RequestPool } from "./upstream/request_pools.ts";
export type { PooledConnection } from "./upstream/connection_pool.ts";
export * from "./data_path.ts";
export {
  type ExplainQuery,
  type ExplainResult,
  type Explanation,
  type LocalReply,
  NO_FINDINGS,
  PLAIN_PLUGINS,
  routeView,
  type SplitView,
  type TargetView,
} from "./explain/explanation.ts";
export type { PluginView } from "../plugin/mod.ts";
export type { Columns } from "./listen/listeners.ts";
export type { FetchCertificate } from "./trust/trust_contexts.ts";
export { isShownField, type OpenTap, type TakeTapped, type TapFilter } from "./observe/tap.ts";
export { askThere, refusingText } from "./observe/upstream_refusals.ts";
export { lastRefusals, slowest } from "./observe/traffic_lists.ts";
export * from "./observe/view.ts";
