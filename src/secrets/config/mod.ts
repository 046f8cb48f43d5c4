/** Configuration of credentials, our own and Envoy's, as plans. @module */
export type { ParsedTls, TlsConfigContext } from "./context.ts";
export { type ParsedSdsServers, parseSdsServers, type SdsServersContext } from "./sds_servers.ts";
export { parseTlsConfig } from "./tls.ts";
