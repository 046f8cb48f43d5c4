/** The admin server: the state of the proxy, for operators and probes. @module */
export * from "./ask_admin.ts";
export { createAdmin } from "./admin.ts";
export { EXIT_CODE_HEADER } from "./explain/verdict.ts";
export { readAdminToken } from "./server/admin_token.ts";
export { METRICS_TYPE, metricsText } from "./measured.ts";
export { answerStats, type SinkStat, sinkStats } from "./sink_stats.ts";
export { mergeListeners } from "./merge.ts";
export type { Listening } from "./server/http_server.ts";
export * from "./server/server.ts";
export type { SmallServerTls } from "./server/http_server.ts";
export { type SmallAnswer, startSmallServer } from "./server/small_server.ts";
export * from "./view.ts";
export { withWarming } from "./warming.ts";
