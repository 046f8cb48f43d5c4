export type {
  Body,
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
  StateKey,
} from "./api.ts";
export { aboutBuiltIn, contractText } from "./about_built_in.ts";
export { BUILT_IN_NAMES, loadBuiltIn } from "./built_in.ts";
export { MadeBody, PassingBody, type PassingSource } from "./body.ts";
export { BrokenBody } from "./broken_body.ts";
export type { Callee, CalleeName, Callees, Question } from "./callees.ts";
export {
  builtinModule,
  FOR_AUTHORS,
  LIBRARIES,
  librariesOf,
  loadCode,
  runCode,
  whyNoImport,
} from "./code.ts";
export { faultOf, type Place, placeOf } from "./code_places.ts";
export type { DryRun } from "./dry_run.ts";
export { EndedExchange } from "./ended_exchange.ts";
export { Generation, type LayerView, type PluginView } from "./generation.ts";
export {
  Generations,
  type ListenerPlugins,
  type LoadPlugin,
  type PluginsOf,
  type PreparedGenerations,
  whyNotUsable,
} from "./generations.ts";
export { HeaderList } from "./header_list.ts";
export { RECORD, type RecordedExchange } from "./header_value.ts";
export type { Lender } from "./host.ts";
export type { GenerationOptions, PluginPlace, RoutePlace } from "./instances.ts";
export { type LendCells, LentCells } from "./lent_cells.ts";
export { failed, PluginRequest, PluginResponse, type ResponseFailure } from "./messages.ts";
export { type Layer, Onion, type RoutePlan, type Sending, type Surroundings } from "./onion.ts";
export { Outcome, type Told } from "./outcome.ts";
export { type AnyPlugin, whyNoPlugin, whyNoPluginName } from "./registry.ts";
export { TOKEN_FAULTS, VERIFIED_CLAIMS } from "../../plugins/verified_claims.ts";
export { SharedState } from "./shared_state.ts";
export { OpenedBody, type Pump, pumpOf } from "./streams.ts";
