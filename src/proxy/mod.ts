/** Listeners as readable stage lists. @module */
export {
  FIRST_UPSTREAM_COLUMN,
  MAX_UPSTREAMS,
  PROCESS_COLUMN,
  SharedCounts,
  UPSTREAM_COLUMNS,
} from "./admission.ts";
export type { Dialler } from "./attempt.ts";
export type { Context, RemoteAuthorize } from "./context.ts";
export type { TakeLine } from "./l7/access_logger.ts";
export { ExchangeValue } from "./l7/exchange_value.ts";
export { type PluginAsker, PluginLayers } from "./l7/plugin_layers.ts";
export { OutgoingCall } from "./l7/outgoing_call.ts";
export { takeForm } from "./l7/request_form.ts";
export type { RequestWays } from "./l7/request_ways.ts";
export type { Way } from "./l7/ways.ts";
export * from "./data_path.ts";
export {
  type Explained,
  type Explanation,
  type OwnAnswer,
  PLAIN_PLUGINS,
  type Question,
  type SplitView,
  type TargetView,
} from "./explanation.ts";
export type { PluginView } from "../plugin/mod.ts";
export type { Columns } from "./listeners.ts";
export type { FetchCertificate } from "./trust/trusts.ts";
export * from "./view.ts";
