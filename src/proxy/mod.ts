/** Listeners as readable stage lists. @module */
export { SharedCounts } from "./admission.ts";
export type { RemoteAuthorize } from "./context.ts";
export * from "./data_path.ts";
export type { FetchCertificate } from "./trusts.ts";
export * from "./view.ts";
