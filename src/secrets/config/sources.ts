/**
 * Where a secret of our own form comes from besides files: the agent, SDS, the Workload API.
 *
 * @module
 */

import * as v from "valibot";
import { type Address, messageOf } from "../../base/mod.ts";
import { type ConfigPath, defined, duration, type Report, text } from "../../base/schema.ts";
import { INITIAL_FETCH_TIMEOUT_MS, type SdsServer, type SecretRef } from "../plan.ts";
import type { SecretType } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";
import { ENDPOINT_VARIABLE, parseEndpointSocket } from "../workload/endpoint.ts";
import type { TlsReading } from "./tls_context.ts";

export const TIMEOUT_ENTRIES = {
  initialFetchTimeout: v.optional(duration(0), `${INITIAL_FETCH_TIMEOUT_MS}ms`),
};

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
  socket: v.exactOptional(text()),
  id: v.exactOptional(spiffeUri()),
  hint: v.exactOptional(text()),
  withdrawalGrace: v.exactOptional(withdrawalGrace()),
  ...TIMEOUT_ENTRIES,
};

/** From fields that were read to the secret that they mean; reports why there is none. */
type RefOf<T extends v.ObjectEntries> = (
  found: v.InferOutput<v.ObjectSchema<T, undefined>>,
  report: Report,
) => SecretRef | undefined;

/** The agent's leaf or roots, or the file's own credentials; nobody waits for a time here. */
export function consulRef(type: SecretType): SecretRef {
  const name = type === "certificate" ? "leaf" : "roots";
  return { type, name, source: { kind: "consul" }, initialFetchTimeoutMs: 0 };
}

/** What the configuration describes itself; its files are watched. */
export function specRef(
  name: string,
  spec: SecretSpec,
  initialFetchTimeoutMs: number,
): SecretRef {
  return {
    type: spec.type,
    name,
    source: { kind: "spec", spec, watch: true },
    initialFetchTimeoutMs,
  };
}

export function sdsRef(type: SecretType, reading: TlsReading): RefOf<typeof SDS_SECRET_ENTRIES> {
  return (found, report) => {
    const { cluster, name, api, initialFetchTimeout: initialFetchTimeoutMs } = found;
    const server = serverOf(cluster, { reading, report, path: ["cluster"] });
    return server &&
      { type, name, source: { kind: "sds", server, api }, initialFetchTimeoutMs };
  };
}

/** The server of that name; reports that there is none. */
export function serverOf(
  cluster: string,
  options: { readonly reading: TlsReading; readonly report: Report; readonly path: ConfigPath },
): SdsServer | undefined {
  const { reading: { sdsServers, noServers }, report, path } = options;
  if (Object.hasOwn(sdsServers, cluster)) return sdsServers[cluster];
  if (noServers) return report(path, noServers);
  const known = Object.keys(sdsServers);
  const fact = known.length > 0 ? `known are ${known.join(", ")}` : "none is configured";
  return report(path, `names "${cluster}", which is no SDS server; ${fact}`);
}

export function workloadRef(type: SecretType, { env }: TlsReading): RefOf<typeof WORKLOAD_ENTRIES> {
  return (found, report) => {
    const { id, hint, withdrawalGrace: withdrawalGraceMs } = found;
    const socket = found.socket ?? env[ENDPOINT_VARIABLE];
    const missing = found.socket === undefined ? `is missing, and ${ENDPOINT_VARIABLE} ` : "";
    if (!socket) return report(["socket"], `${missing}is not set in the environment`);
    let address: Address;
    try {
      address = parseEndpointSocket(socket);
    } catch (error) {
      return report(["socket"], `${missing}is of no use: ${messageOf(error)}`);
    }
    return {
      type,
      name: type === "validation" ? "bundles" : id ?? hint ?? "default",
      source: { kind: "workload", address, ...defined({ id, hint, withdrawalGraceMs }) },
      initialFetchTimeoutMs: found.initialFetchTimeout,
    };
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
