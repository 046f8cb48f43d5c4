/**
 * Where a secret of our own form comes from besides files: the agent, SDS, the Workload API.
 *
 * @module
 */

import * as v from "valibot";
import { type Address, messageOf } from "../../base/mod.ts";
import type { Report } from "../envoy/message.ts";
import { INITIAL_FETCH_TIMEOUT_MS, type SdsServer, type SecretRef } from "../plan.ts";
import type { SecretType } from "../secret.ts";
import { duration, text } from "../values.ts";
import { ENDPOINT_VARIABLE, parseEndpointSocket } from "../workload/endpoint.ts";
import type { Reading, TlsConfigContext } from "./tls_context.ts";

export const TIMEOUT_ENTRIES = { initialFetchTimeout: v.optional(duration(0)) };

/** Certificates of one listener: it may serve a thousand hosts by name. */
export const CERTIFICATES_LIMIT = 10_000;

export const SDS_ENTRIES = {
  cluster: text(),
  api: v.optional(
    v.picklist(["auto", "sotw", "delta"], "must be auto, sotw or delta"),
    "auto",
  ),
};

export const SDS_SECRET_ENTRIES = { ...SDS_ENTRIES, name: text(), ...TIMEOUT_ENTRIES };

export const WORKLOAD_ENTRIES = {
  socket: v.optional(text()),
  id: v.optional(spiffeUri()),
  hint: v.optional(text()),
  withdrawalGrace: v.optional(withdrawalGrace()),
  ...TIMEOUT_ENTRIES,
};

export type SdsFields = v.InferOutput<v.ObjectSchema<typeof SDS_SECRET_ENTRIES, undefined>>;
export type WorkloadFields = v.InferOutput<v.ObjectSchema<typeof WORKLOAD_ENTRIES, undefined>>;

/** The agent's leaf or roots, or the file's own credentials; nobody waits for a time here. */
export function consulRef(type: SecretType): SecretRef {
  const name = type === "certificate" ? "leaf" : "roots";
  return { type, name, source: { kind: "consul" }, initialFetchTimeoutMs: 0 };
}

export function sdsRef(
  found: SdsFields,
  options: {
    readonly type: SecretType;
    readonly context: TlsConfigContext;
    readonly report: Report;
  },
): SecretRef | undefined {
  const { type, context, report } = options;
  const server = serverOf(found.cluster, { context, report, path: ["cluster"] });
  return server && {
    type,
    name: found.name,
    source: { kind: "sds", server, api: found.api },
    initialFetchTimeoutMs: found.initialFetchTimeout ?? INITIAL_FETCH_TIMEOUT_MS,
  };
}

/** The server of that name; reports that there is none. */
export function serverOf(
  cluster: string,
  options: {
    readonly context: Pick<Reading, "sdsServers" | "noServers">;
    readonly report: Report;
    readonly path: readonly (string | number)[];
  },
): SdsServer | undefined {
  const { context: { sdsServers, noServers }, report, path } = options;
  if (Object.hasOwn(sdsServers, cluster)) return sdsServers[cluster];
  if (noServers) return report(path, noServers);
  const known = Object.keys(sdsServers);
  const fact = known.length > 0 ? `known are ${known.join(", ")}` : "none is configured";
  return report(path, `names "${cluster}", which is no SDS server; ${fact}`);
}

export function workloadRef(
  found: WorkloadFields,
  options: {
    readonly type: SecretType;
    readonly context: TlsConfigContext;
    readonly report: Report;
  },
): SecretRef | undefined {
  const { type, context: { env }, report } = options;
  const socket = found.socket ?? env[ENDPOINT_VARIABLE];
  if (!socket) {
    return report(["socket"], `is missing, and ${ENDPOINT_VARIABLE} is not set in the environment`);
  }
  let address: Address;
  try {
    address = parseEndpointSocket(socket);
  } catch (error) {
    return found.socket === undefined
      ? report(["socket"], `is missing, and ${ENDPOINT_VARIABLE} is of no use: ${messageOf(error)}`)
      : report(["socket"], `is of no use: ${messageOf(error)}`);
  }
  const { id, hint, withdrawalGrace: withdrawalGraceMs } = found;
  return {
    type,
    name: type === "validation" ? "bundles" : id ?? hint ?? "default",
    source: {
      kind: "workload",
      address,
      ...(id && { id }),
      ...(hint && { hint }),
      ...(withdrawalGraceMs !== undefined && { withdrawalGraceMs }),
    },
    initialFetchTimeoutMs: found.initialFetchTimeout ?? INITIAL_FETCH_TIMEOUT_MS,
  };
}

/** What is taken back is to be given up: a long grace would be a refusal to. */
function withdrawalGrace(): v.GenericSchema<string, number> {
  return v.pipe(duration(0), v.maxValue(60_000, "must be at most 1m"));
}

/** Any SPIFFE id with a path. */
function spiffeUri(): v.GenericSchema<string> {
  return v.pipe(
    text(),
    v.maxLength(2_048, "is longer than 2048 characters"),
    v.regex(
      /^spiffe:\/\/[a-z0-9._-]+(?:\/[A-Za-z0-9._-]+)+$/,
      "must be a SPIFFE id such as spiffe://example.org/web",
    ),
  );
}
