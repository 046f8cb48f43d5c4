/** Listeners as readable stage lists. @module */
export {
  FIRST_UPSTREAM_COLUMN,
  MAX_UPSTREAMS,
  PROCESS_COLUMN,
  SharedCounts,
  UPSTREAM_COLUMNS,
} from "./admission.ts";
export type { RemoteAuthorize } from "./context.ts";
export type { TakeLine } from "./l7/access_logger.ts";
export * from "./data_path.ts";
export type { Columns } from "./listeners.ts";
export type { FetchCertificate } from "./trust/trusts.ts";
export * from "./view.ts";
