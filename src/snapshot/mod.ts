/** What is true now, and where it comes from. @module */
export * from "./assemble.ts";
export type { RegistrationSource } from "./consul_facts.ts";
export * from "./consul_source.ts";
export * from "./file_config.ts";
export * from "./file_snapshot.ts";
export * from "./file_source.ts";
export { type RegistrationFlags, registrationOfFlags } from "./flag_registration.ts";
export * from "./judge_credentials.ts";
export type { Known } from "./known.ts";
export * from "./mesh_tls.ts";
export * from "./plan.ts";
export * from "./snapshot.ts";
export type { CertificateRequest, SecretsReport } from "./secrets_link.ts";
export * from "./source.ts";
export { createStateFiles, type FileSystem, type StateFiles } from "./state_files.ts";
export * from "./store.ts";
export * from "./update.ts";
