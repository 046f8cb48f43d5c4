/** Makes snapshots from Consul or a file, and keeps them on disk. @module */

export * from "./consul/assemble.ts";
export type { RegistrationSource } from "./consul/consul_facts.ts";
export * from "./consul/consul_source.ts";
export { registrationOfFlags } from "./consul/flag_registration.ts";
export * from "./consul/mesh_entry.ts";
export { pinStoredCluster } from "./consul/consul_source.ts";
export * from "./consul/plan.ts";
export * from "./file/config_json_schema.ts";
export * from "./file/file_config.ts";
export * from "./file/file_source.ts";
export { bundle, type Bundled, sha256 } from "./plugins/bundle.ts";
export { BUNDLE_EXTENSION, formatBundle } from "./plugins/plugin_bundle.ts";
export { PluginWatch } from "./plugins/plugin_watch.ts";
export { troublesOf } from "./shell/source_report.ts";
export {
  collectorOf,
  OTLP_PATHS,
  OTLP_PROTOCOLS,
  parseShare,
  ZIPKIN_PATH,
} from "./parts/tracing.ts";
export * from "./parts/judge_credentials.ts";
export type { SecretsReport } from "./shell/secrets_link.ts";
export * from "./shell/source.ts";
export { LatestWriter } from "./state/latest_writer.ts";
export { createStateFiles, type StateFiles, type StateFileSystem } from "./state/state_files.ts";
export * from "./state/store.ts";
export type { StoredState } from "./state/stored_credentials.ts";
