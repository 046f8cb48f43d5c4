/** Listeners as readable stage lists. @module */
export {
  FIRST_UPSTREAM_COLUMN,
  MAX_UPSTREAMS,
  PROCESS_COLUMN,
  SharedCounts,
  UPSTREAM_COLUMNS,
} from "./admission.ts";
export type { AttemptHandler } from "./attempt.ts";
export type { Context, RemoteAuthorize } from "./context.ts";
export type { TakeLine } from "./l7/access_logger.ts";
export { ExchangeValue } from "./l7/exchange_value.ts";
export { PluginLayers, type PluginResponseSink } from "./l7/plugin_layers.ts";
export { OutgoingCall } from "./l7/outgoing_call.ts";
export { takeForm } from "./l7/request_form.ts";
export type { RequestPool } from "./l7/request_pools.ts";
export type { PooledConnection } from "./l7/connection_pool.ts";
export * from "./data_path.ts";
export {
  type ExplainQuery,
  type ExplainResult,
  type Explanation,
  type LocalReply,
  PLAIN_PLUGINS,
  type SplitView,
  type TargetView,
} from "./explanation.ts";
export type { PluginView } from "../plugin/mod.ts";
export type { Columns } from "./listeners.ts";
export type { FetchCertificate } from "./trust/trust_contexts.ts";
export * from "./view.ts";
