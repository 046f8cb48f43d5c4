/** Certificates from SDS of a Consul ingress gateway; a narrower block's fields replace a wider's. @module */

import * as v from "valibot";
import {
  checked,
  type ConfigPath,
  formatPath,
  parsed,
  type Problem,
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

const NO_OBJECT = "must be an object";
const NAME = v.string("must be a text");
const TEXT = v.nullish(NAME, "");
const SDS = v.nullish(v.object({ ClusterName: TEXT, CertResource: TEXT }, NO_OBJECT));
const TLS = v.nullish(v.object({
  SDS,
  TLSMinVersion: TEXT,
  TLSMaxVersion: TEXT,
  CipherSuites: listOf(NAME),
}, NO_OBJECT));
const SERVICE = v.object({
  Name: NAME,
  Hosts: listOf(NAME),
  TLS: v.nullish(v.object({ SDS }, NO_OBJECT)),
}, NO_OBJECT);
const LISTENER = v.object({
  Port: v.number("must be a number"),
  TLS,
  Services: listOf(SERVICE),
}, NO_OBJECT);

/** Other fields of the agent's entry are ignored. */
const ENTRY = v.object({ TLS, Listeners: listOf(LISTENER) }, NO_OBJECT);

function listOf<T extends v.GenericSchema>(item: T) {
  return v.nullish(v.array(item, "must be a list"), []);
}

type Listener = v.InferOutput<typeof LISTENER>;
type Tls = Listener["TLS"];

interface Reading {
  readonly gateway: Tls;
  readonly context: IngressContext;
  readonly report: Report;
  warn(message: string): void;
}

/** Never throws; all problems are reported at once. */
export function ingressTlsPlan(entry: unknown, context: IngressContext): IngressTls {
  const warnings: string[] = [];
  const warn = (text: string) => void warnings.push(text);
  const schema = checked(ENTRY, ({ TLS: gateway, Listeners }, report) => {
    const reading = { gateway, context, report, warn };
    return Listeners.map((listener, index) =>
      listenerPlan(listener, ["Listeners", index], reading)
    );
  });
  const result = parsed(schema, entry, context.path);
  return result.kind === "valid" ? { kind: "valid", plans: result.output, warnings } : result;
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
  const versionOf = (field: "TLSMinVersion" | "TLSMaxVersion") => {
    const text = listener?.[field] || gateway?.[field] || "";
    const version = Object.hasOwn(VERSIONS, text) ? VERSIONS[text] : undefined;
    if (!version) report([...path, field], `is "${text}", which is not known`);
    return { text, version };
  };
  const [least, most] = [versionOf("TLSMinVersion"), versionOf("TLSMaxVersion")];
  const suites = listener?.CipherSuites.length
    ? listener.CipherSuites
    : gateway?.CipherSuites ?? [];
  if (!least.text && !most.text && suites.length === 0) return undefined;
  if (least.version === "too_old") warn(`TLSMinVersion ${least.text} was raised to TLS 1.2`);
  if (most.version === "too_old") {
    return report(
      [...path, "TLSMaxVersion"],
      "is below TLS 1.2, which is the least that is spoken",
    );
  }
  const minVersion = least.version === "TLSv1.3" ? "TLSv1.3" : "TLSv1.2";
  const maxVersion = most.version === "TLSv1.2" ? "TLSv1.2" : "TLSv1.3";
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
