/** Configuration of credentials, our own and Envoy's, as plans. @module */
export type { ParsedTls, TlsConfigContext } from "./tls_context.ts";
export {
  type IngressContext,
  type IngressListenerTls,
  type IngressServiceTls,
  type IngressTls,
  ingressTlsPlan,
} from "./ingress_tls.ts";
export { type ParsedSdsServers, parseSdsServers, type SdsServersContext } from "./sds_servers.ts";
export { type ParsedStaticSecrets, parseStaticSecrets } from "./static_secrets.ts";
export { parseTlsConfig } from "./tls.ts";
