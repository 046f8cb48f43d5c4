/** What makes snapshots: the agent, or a file; and what is kept of them on disk. @module */
export * from "./consul/assemble.ts";
export type { RegistrationSource } from "./consul/consul_facts.ts";
export * from "./consul/consul_source.ts";
export type { ConsulSourceOptions } from "./consul/consul_source_options.ts";
export { type RegistrationFlags, registrationOfFlags } from "./consul/flag_registration.ts";
export * from "./consul/judge_credentials.ts";
export type { Known } from "./consul/known.ts";
export * from "./consul/mesh_tls.ts";
export * from "./consul/plan.ts";
export * from "./file/file_config.ts";
export * from "./file/file_snapshot.ts";
export * from "./file/file_source.ts";
export type { CertificateRequest, SecretsReport } from "./secrets_link.ts";
export * from "./source.ts";
export { bundle, type Bundled } from "./plugins/bundle.ts";
export { createStateFiles, type FileSystem, type StateFiles } from "./state/state_files.ts";
export * from "./state/store.ts";
export type { StoredCredentials, StoredState } from "./state/stored_credentials.ts";
