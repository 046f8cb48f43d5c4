/** Credentials from sources besides the agent: files, SDS, the Workload API. @module */
export { ingressTlsPlan } from "./config/ingress_tls.ts";
export { type ParsedSdsServers, parseSdsServers } from "./config/sds_servers.ts";
export { parseTlsConfig } from "./config/tls_config.ts";
export type { ParsedTls, TlsConfigContext } from "./config/sources.ts";
export { opensslSuite } from "./config/tls_parameters.ts";
export * from "./model/plan.ts";
export * from "./model/secret.ts";
export { ExpiryWatch } from "./store/expiry.ts";
export { keySalt } from "./store/key.ts";
export { createProviders, type SecretsEngine } from "./store/providers.ts";
export { SecretStore } from "./store/secret_store.ts";
export type { StoredSecrets } from "./store/subscriptions.ts";
