/** Secrets from a SPIFFE Workload API. @module */
export { ENDPOINT_VARIABLE, parseEndpointSocket } from "./endpoint.ts";
export { createWorkloadProvider, type WorkloadDeps } from "./provider.ts";
