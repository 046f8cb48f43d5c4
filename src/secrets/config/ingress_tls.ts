/**
 * TLS of a Consul ingress gateway whose certificates come from SDS: `TLS.SDS{ClusterName, CertResource}`
 * of the gateway, a listener and a service, each field of its own the narrower over the wider.
 *
 * @module
 */

import * as v from "valibot";
import { opensslSuite } from "../cipher_suites.ts";
import {
  type CredentialsPlan,
  INITIAL_FETCH_TIMEOUT_MS,
  type SdsServer,
  type SecretRef,
} from "../plan.ts";
import { type TlsDirection } from "../../snapshot/mod.ts";
import { type ConfigPath, formatPath, type Problem, problemOf } from "../../base/schema.ts";

export interface IngressContext {
  /** Where the entry is, for problems. */
  readonly path: ConfigPath;
  readonly sdsServers: Readonly<Record<string, SdsServer>>;
  /** Servers that are there and cannot be used, and why. */
  readonly unusable?: ReadonlyMap<string, readonly Problem[]>;
}

export interface IngressListenerTls {
  readonly port: number;
  /** For clients that name none of the services' hosts; `null`: they have no certificate of SDS. */
  readonly certificate: SecretRef | null;
  readonly services: readonly IngressServiceTls[];
  /** All certificates, the listener's first; `null`: none comes from SDS. Clients show nothing. */
  readonly plan: CredentialsPlan | null;
}

/** A service with a certificate of its own. */
export interface IngressServiceTls {
  readonly name: string;
  /** Names by which clients ask for it; `*.example.com` among them. */
  readonly hosts: readonly string[];
  readonly certificate: SecretRef;
}

export type IngressTls =
  | {
    readonly kind: "valid";
    readonly listeners: readonly IngressListenerTls[];
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

/** As the agent gives it: what else it has is not ours to judge. */
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

/** Never throws; everything wrong is reported at once. */
export function ingressTlsPlan(entry: unknown, context: IngressContext): IngressTls {
  const problems: Problem[] = [];
  const warnings: string[] = [];
  const result = v.safeParse(ENTRY, entry);
  if (!result.success) problems.push(...result.issues.map(problemOf));
  const reading: Reading = {
    sdsServers: context.sdsServers,
    unusable: context.unusable ?? new Map(),
    report: (path, message) => void problems.push({ path, message }),
    warn: (message) => void warnings.push(message),
  };
  const listeners = result.success
    ? result.output.Listeners.map((listener, index) =>
      listenerTls(listener, { gateway: result.output.TLS, path: ["Listeners", index], reading })
    )
    : [];
  if (problems.length === 0) return { kind: "valid", listeners, warnings };
  const placed = problems.map(({ path, message }) => ({
    path: [...context.path, ...path],
    message,
  }));
  return { kind: "invalid", problems: placed };
}

interface Reading {
  readonly sdsServers: IngressContext["sdsServers"];
  readonly unusable: ReadonlyMap<string, readonly Problem[]>;
  report(path: ConfigPath, message: string): void;
  warn(message: string): void;
}

function listenerTls(
  listener: Listener,
  options: { readonly gateway: Tls; readonly path: ConfigPath; readonly reading: Reading },
): IngressListenerTls {
  const { gateway, path, reading } = options;
  const { Port: port } = listener;
  const own = mergeSds(gateway?.SDS, listener.TLS?.SDS);
  const certificate = own.CertResource || own.ClusterName
    ? sdsRef(own, { path: [...path, "TLS", "SDS"], reading })
    : null;
  const services: IngressServiceTls[] = [];
  listener.Services.forEach((service, index) => {
    const sds = service.TLS?.SDS;
    if (!sds?.ClusterName && !sds?.CertResource) return;
    const at = [...path, "Services", index];
    if (service.Hosts.length === 0) {
      reading.report([...at, "Hosts"], "is empty; a certificate of its own is chosen by host");
    }
    const ref = sdsRef(mergeSds(own, sds), { path: [...at, "TLS", "SDS"], reading });
    const hosts = service.Hosts.map((host) => host.toLowerCase());
    if (ref) services.push({ name: service.Name, hosts, certificate: ref });
  });
  const certificates = distinct([
    ...certificate ? [certificate] : [],
    ...services.map((service) => service.certificate),
  ]);
  // Consul's own settings of listeners without SDS are none of ours.
  if (certificates.length === 0) return { port, certificate, services, plan: null };
  const tls = parametersOf([gateway, listener.TLS], { path: [...path, "TLS"], reading });
  const plan: CredentialsPlan = {
    certificates,
    validation: null,
    requireClientCertificate: false,
    onDemand: null,
    ...tls && { tls },
  };
  return { port, certificate, services, plan };
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

/** As Consul tells Envoy: state of the world, V3, of a cluster that the operator adds himself. */
function sdsRef(
  { ClusterName, CertResource }: SdsNames,
  { path, reading }: { readonly path: ConfigPath; readonly reading: Reading },
): SecretRef | null {
  const { sdsServers, unusable, report } = reading;
  if (!ClusterName) report([...path, "ClusterName"], "is missing, here and above");
  if (!CertResource) report([...path, "CertResource"], "is missing, here and above");
  if (!ClusterName || !CertResource) return null;
  const server = Object.hasOwn(sdsServers, ClusterName) ? sdsServers[ClusterName] : undefined;
  if (!server) {
    const reasons = unusable.get(ClusterName)?.map((one) =>
      `${formatPath(one.path)} ${one.message}`
    );
    const fact = reasons ? `cannot be used: ${reasons.join("; ")}` : "is no SDS server";
    report([...path, "ClusterName"], `names "${ClusterName}", which ${fact}`);
    return null;
  }
  return {
    type: "certificate",
    name: CertResource,
    source: { kind: "sds", server, api: "sotw" },
    initialFetchTimeoutMs: INITIAL_FETCH_TIMEOUT_MS,
  };
}

function distinct(refs: readonly SecretRef[]): readonly SecretRef[] {
  const seen = new Map<string, SecretRef>();
  for (const ref of refs) {
    const server = ref.source.kind === "sds" ? ref.source.server.name : "";
    const key = JSON.stringify([server, ref.name]);
    if (!seen.has(key)) seen.set(key, ref);
  }
  return [...seen.values()];
}

/** The narrower block's fields over the wider's; `undefined`: neither says any. */
function parametersOf(
  [gateway, listener]: readonly [Tls, Tls],
  { path, reading }: { readonly path: ConfigPath; readonly reading: Reading },
): TlsDirection | undefined {
  const { report, warn } = reading;
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
  const max = known(most, "TLSMaxVersion", "TLSv1.3");
  if (min === "too_old") warn(`TLSMinVersion ${least} was raised to TLS 1.2`);
  const minVersion = min === "too_old" ? "TLSv1.2" : min;
  if (max === "too_old") {
    report([...path, "TLSMaxVersion"], "is below TLS 1.2, which is the least that is spoken");
    return undefined;
  }
  if (minVersion > max) report([...path, "TLSMinVersion"], "is above TLSMaxVersion");
  const cipherSuites = suites.flatMap((suite, index) => {
    const name = opensslSuite(suite);
    if (!name) report([...path, "CipherSuites", index], `is "${suite}", which is not known`);
    return name ? [name] : [];
  });
  return { minVersion, maxVersion: max, cipherSuites };
}

const VERSIONS: Readonly<Record<string, "automatic" | "too_old" | "TLSv1.2" | "TLSv1.3">> = {
  "": "automatic",
  TLS_AUTO: "automatic",
  TLSv1_0: "too_old",
  TLSv1_1: "too_old",
  TLSv1_2: "TLSv1.2",
  TLSv1_3: "TLSv1.3",
};
