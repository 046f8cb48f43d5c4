/** Envoy's messages about secrets, as its configuration files and SDS servers write them. @module */
export { formatProblems, type NamedSpec, parseSecret, type SecretOptions } from "./secret.ts";
