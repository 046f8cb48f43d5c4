/**
 * TLS of a Consul ingress gateway with certificates from SDS: `TLS.SDS{ClusterName, CertResource}` of the
 * gateway, a listener and a service, where each field of a narrower block replaces the wider one's.
 *
 * @module
 */

import * as v from "valibot";
import {
  type ConfigPath,
  formatPath,
  type Problem,
  problemOf,
  type Report,
} from "../../base/schema.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";
import {
  type CredentialsPlan,
  INITIAL_FETCH_TIMEOUT_MS,
  type SdsServer,
  type SecretRef,
} from "../model/plan.ts";
import { opensslSuite } from "./tls_parameters.ts";

interface IngressContext {
  /** The place of the entry, for problems. */
  readonly path: ConfigPath;
  readonly sdsServers: Readonly<Record<string, SdsServer>>;
  /** Servers that cannot be used, with the reasons. */
  readonly unusable?: ReadonlyMap<string, readonly Problem[]>;
}

type IngressTls =
  | {
    readonly kind: "valid";
    /** One for each listener; `null`: it has no certificate from SDS. Clients show no certificate. */
    readonly plans: readonly (CredentialsPlan | null)[];
    readonly warnings: readonly string[];
  }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

const TEXT = v.nullish(v.string("must be a text"), "");
const SDS = v.nullish(v.object({ ClusterName: TEXT, CertResource: TEXT }, "must be an object"));
const TLS = v.nullish(v.object({
  SDS,
  TLSMinVersion: TEXT,
  TLSMaxVersion: TEXT,
  CipherSuites: v.nullish(v.array(v.string("must be a text"), "must be a list"), []),
}, "must be an object"));

/** Other fields of the agent's entry are ignored. */
const ENTRY = v.object({
  TLS,
  Listeners: v.nullish(
    v.array(
      v.object({
        Port: v.number("must be a number"),
        TLS,
        Services: v.nullish(
          v.array(
            v.object({
              Name: v.string("must be a text"),
              Hosts: v.nullish(v.array(v.string("must be a text"), "must be a list"), []),
              TLS: v.nullish(v.object({ SDS }, "must be an object")),
            }, "must be an object"),
            "must be a list",
          ),
          [],
        ),
      }, "must be an object"),
      "must be a list",
    ),
    [],
  ),
}, "must be an object");

type Entry = v.InferOutput<typeof ENTRY>;
type Listener = NonNullable<Entry["Listeners"]>[number];
type Tls = Entry["TLS"];

interface Reading {
  readonly gateway: Tls;
  readonly context: IngressContext;
  readonly report: Report;
  warn(message: string): void;
}

/** Never throws; all problems are reported at once. */
export function ingressTlsPlan(entry: unknown, context: IngressContext): IngressTls {
  const problems: Problem[] = [];
  const warnings: string[] = [];
  const report: Report = (path, message) => {
    problems.push({ path: [...context.path, ...path], message });
    return undefined;
  };
  const result = v.safeParse(ENTRY, entry);
  if (!result.success) {
    for (const { path, message } of result.issues.map(problemOf)) report(path, message);
    return { kind: "invalid", problems };
  }
  const { TLS: gateway, Listeners } = result.output;
  const reading = { gateway, context, report, warn: (text: string) => void warnings.push(text) };
  const plans = Listeners.map((listener, index) =>
    listenerPlan(listener, ["Listeners", index], reading)
  );
  return problems.length > 0 ? { kind: "invalid", problems } : { kind: "valid", plans, warnings };
}

function listenerPlan(
  listener: Listener,
  path: ConfigPath,
  reading: Reading,
): CredentialsPlan | null {
  const { gateway, report } = reading;
  const own = mergeSds(gateway?.SDS, listener.TLS?.SDS);
  const refs = new Map<string, SecretRef>();
  const add = (sds: SdsNames, at: ConfigPath) => {
    const ref = sdsRef(sds, [...at, "TLS", "SDS"], reading);
    const key = JSON.stringify([sds.ClusterName, sds.CertResource]);
    if (ref && !refs.has(key)) refs.set(key, ref);
  };
  if (own.CertResource || own.ClusterName) add(own, path);
  listener.Services.forEach(({ TLS, Hosts }, index) => {
    const sds = TLS?.SDS;
    if (!sds?.ClusterName && !sds?.CertResource) return;
    const at = [...path, "Services", index];
    if (Hosts.length === 0) {
      report([...at, "Hosts"], "is empty; a certificate of its own is chosen by host");
    }
    add(mergeSds(own, sds), at);
  });
  const certificates = [...refs.values()];
  // Consul's own settings for listeners without SDS do not apply here.
  if (certificates.length === 0) return null;
  const tls = parametersOf(listener.TLS, [...path, "TLS"], reading);
  return {
    certificates,
    validation: null,
    requireClientCertificate: false,
    onDemand: null,
    ...tls && { tls },
  };
}

interface SdsNames {
  readonly ClusterName: string;
  readonly CertResource: string;
}

function mergeSds(wide: SdsNames | null | undefined, narrow: SdsNames | null | undefined) {
  return {
    ClusterName: narrow?.ClusterName || wide?.ClusterName || "",
    CertResource: narrow?.CertResource || wide?.CertResource || "",
  };
}

/** As Consul configures Envoy: state of the world, V3, of a cluster that the operator adds. */
function sdsRef(
  { ClusterName, CertResource }: SdsNames,
  path: ConfigPath,
  { context: { sdsServers, unusable }, report }: Reading,
): SecretRef | undefined {
  if (!ClusterName) report([...path, "ClusterName"], "is missing, here and above");
  if (!CertResource) report([...path, "CertResource"], "is missing, here and above");
  if (!ClusterName || !CertResource) return undefined;
  const server = Object.hasOwn(sdsServers, ClusterName) ? sdsServers[ClusterName] : undefined;
  if (!server) {
    const reasons = unusable?.get(ClusterName)?.map((one) =>
      `${formatPath(one.path)} ${one.message}`
    );
    const fact = reasons ? `cannot be used: ${reasons.join("; ")}` : "is no SDS server";
    return report([...path, "ClusterName"], `names "${ClusterName}", which ${fact}`);
  }
  return {
    type: "certificate",
    name: CertResource,
    source: { kind: "sds", server, api: "sotw" },
    initialFetchTimeoutMs: INITIAL_FETCH_TIMEOUT_MS,
  };
}

/** `undefined`: neither the gateway nor the listener has parameters. */
function parametersOf(
  listener: Tls,
  path: ConfigPath,
  { gateway, report, warn }: Reading,
): TlsDirection | undefined {
  const least = listener?.TLSMinVersion || gateway?.TLSMinVersion || "";
  const most = listener?.TLSMaxVersion || gateway?.TLSMaxVersion || "";
  const suites = listener?.CipherSuites.length
    ? listener.CipherSuites
    : gateway?.CipherSuites ?? [];
  if (!least && !most && suites.length === 0) return undefined;
  const known = (text: string, field: string, automatic: "TLSv1.2" | "TLSv1.3") => {
    const version = Object.hasOwn(VERSIONS, text) ? VERSIONS[text] : undefined;
    if (!version) report([...path, field], `is "${text}", which is not known`);
    return version === "automatic" || !version ? automatic : version;
  };
  const min = known(least, "TLSMinVersion", "TLSv1.2");
  const maxVersion = known(most, "TLSMaxVersion", "TLSv1.3");
  if (min === "too_old") warn(`TLSMinVersion ${least} was raised to TLS 1.2`);
  const minVersion = min === "too_old" ? "TLSv1.2" : min;
  if (maxVersion === "too_old") {
    return report(
      [...path, "TLSMaxVersion"],
      "is below TLS 1.2, which is the least that is spoken",
    );
  }
  if (minVersion > maxVersion) report([...path, "TLSMinVersion"], "is above TLSMaxVersion");
  const cipherSuites = suites.flatMap((suite, index) => {
    const name = opensslSuite(suite);
    if (!name) report([...path, "CipherSuites", index], `is "${suite}", which is not known`);
    return name ? [name] : [];
  });
  return { minVersion, maxVersion, cipherSuites };
}

const VERSIONS: Readonly<Record<string, "automatic" | "too_old" | "TLSv1.2" | "TLSv1.3">> = {
  "": "automatic",
  TLS_AUTO: "automatic",
  TLSv1_0: "too_old",
  TLSv1_1: "too_old",
  TLSv1_2: "TLSv1.2",
  TLSv1_3: "TLSv1.3",
};
