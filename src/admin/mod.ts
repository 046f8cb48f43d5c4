/** The admin server: the state of the proxy, for operators and probes. @module */
export * from "./ask_admin.ts";
export { answerStats, createAdmin } from "./admin.ts";
export { eventText } from "./events_page.ts";
export { EXIT_CODE_HEADER } from "./explain/verdict.ts";
export { readAdminToken } from "./server/guard.ts";
export {
  METRICS_TYPE,
  metricsPage,
  metricsText,
  shownFamilies,
  type SinkStat,
  sinkStats,
} from "./measured.ts";
export { mergeListeners, withWarming } from "./merge.ts";
export {
  type Listening,
  type SmallAnswer,
  type SmallPage,
  type SmallServerTls,
  startSmallServer,
} from "./server/http_server.ts";
export * from "./server/server.ts";
export { upstreamTroubles } from "./upstream_troubles.ts";
export * from "./view.ts";
