export type {
  Connection,
  Endpoint,
  Exchange,
  Headers,
  Host,
  HttpRequest,
  HttpResponse,
  Identity,
  Log,
  Phase,
  Plugin,
  PluginDefinition,
  RequestArgs,
  Route,
  Span,
  StateKey,
  Target,
} from "./api.ts";
export {
  builtinModule,
  CONTRACT_TEXT,
  FOR_AUTHORS,
  LIBRARIES,
  librariesOf,
  loadCode,
  runCode,
  whyNoImport,
} from "./code.ts";
export { joined, MadeBody, PassingBody, type PassingSource } from "./body.ts";
export type { Callee, CalleeName, CalleeRequest, Callees } from "./callees.ts";
export { faultOf, placeOf, pluginOf } from "./source_positions.ts";
export type { DryRun } from "./dry_run.ts";
export { Generation, type LayerView, type PluginView } from "./generation.ts";
export {
  Generations,
  isForRequests,
  type ListenerPlugins,
  type ListenerRefusal,
  type LoadPlugin,
  loadWithin,
  type PluginsOf,
  PluginsRefused,
  type PreparedGenerations,
  whyNotUsable,
} from "./generations.ts";
export {
  type HeldPlugin,
  type HoldingPlugin,
  type HookMark,
  HookMarks,
  HOOKS,
  HookWatch,
  IN,
  type MarkedPlugin,
  type TellMarked,
} from "./hook_marks.ts";
export { HeaderList } from "./header_list.ts";
export { EndedExchange, RECORD, type RecordedExchange } from "./header_value.ts";
export type { HostDeps } from "./host.ts";
export type { HostFiles } from "./watched_files.ts";
export type { RoutePlugins } from "./instances.ts";
export { spanIn } from "./plugin_spans.ts";
export {
  type CellContents,
  type OpenSharedCells,
  SHARED_CELLS_LIMITS,
  SharedCells,
  SharedState,
} from "./shared_state.ts";
export {
  failed,
  PluginRequest,
  PluginResponse,
  type ResponseFailure,
  type ResponseListener,
  ResponseOutcome,
} from "./messages.ts";
export {
  type ChosenTarget,
  type ForwardedRequest,
  type Layer,
  type LayerContext,
  type LayerDecided,
  LayerStack,
  type RoutePlan,
} from "./layer_stack.ts";
export { type AnyPlugin, PHASES, whyNoPlugin, whyNoPluginName } from "./definition.ts";
export { TOKEN_FAULTS, VERIFIED_CLAIMS } from "./verified_claims.ts";
export { OpenedBody, type Pump, pumpOf } from "./streams.ts";
