/** Where credentials come from besides the agent: files, SDS, the Workload API. @module */
export * from "./cipher_suites.ts";
export * from "./config/mod.ts";
export { createProviders, type ProviderDeps, type SecretsEngine } from "./create_providers.ts";
export * from "./held.ts";
export type { CertificateAnswer } from "./on_demand/on_demand.ts";
export * from "./plan.ts";
export * from "./secret_provider.ts";
export * from "./secret.ts";
export * from "./spec.ts";
export { ExpiryWatch } from "./store/expiry.ts";
export { keySalt } from "./store/key.ts";
export {
  type CertificateRequest,
  SecretStore,
  type SecretStoreOptions,
} from "./store/secret_store.ts";
export type { StoredSecrets } from "./store/stored.ts";
export type { ExternalSource, ProviderFactory } from "./store/shared_providers.ts";
