/** Configuration of credentials, our own and Envoy's, as plans. @module */
export type { ParsedTls, TlsConfigContext } from "./context.ts";
export { parseTlsConfig } from "./tls.ts";
