/** Envoy's messages about secrets, as its configuration files and SDS servers write them. @module */
export { formatProblems, type NamedSpec, parseSecret, type SecretOptions } from "./envoy_secret.ts";
export {
  type ParsedSecretFile,
  parseSecretFile,
  SECRET_FILE_LIMIT_BYTES,
  type SecretFileOptions,
} from "./secret_file.ts";
export { createSecretFileProvider } from "./secret_file_provider.ts";
