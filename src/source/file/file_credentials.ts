/** Credentials and SDS servers in a configuration file. @module */

import { dirname } from "node:path";
import * as v from "valibot";
import { NO_RULES } from "../../identity/mod.ts";
import {
  type CertificateSpec,
  type CredentialsPlan,
  type DataSource,
  INITIAL_FETCH_TIMEOUT_MS,
  parseSdsServers,
  type SecretRef,
  type SecretSpec,
  type TlsConfigContext,
  type ValidationSpec,
} from "../../secrets/mod.ts";
import { type ConfigPath, object, type Problem, problemOf, text } from "../../base/schema.ts";
import { type CredentialPlans, readPlan, withPaths } from "../parts/credential_plans.ts";

/** Credentials of the whole proxy when the file has `certFile`, `keyFile` and `rootsFile`. */
export const MESH_PLAN = "mesh";
/** Credentials of the whole proxy in any other form. */
const DEFAULT_PLAN = "default";
const INBOUND_PLAN = "inbound";

export interface FileCredentialsInput {
  readonly trustDomain?: string | undefined;
  readonly credentials?: unknown;
  readonly sds?: unknown;
  readonly inbound?: { readonly tls?: unknown } | undefined;
  readonly defaultAction: "allow" | "deny";
  readonly upstreams: readonly {
    readonly name: string;
    readonly identity?: unknown;
    readonly spiffeIds?: unknown;
    readonly tls?: unknown;
    readonly listenerTls?: unknown;
  }[];
}

export interface FileCredentials {
  readonly plans: CredentialPlans;
  /** By upstream name: the server name that its credentials require. */
  readonly serverNames: ReadonlyMap<string, string>;
}

export interface FileCredentialsOptions {
  /** The configuration file; relative paths begin at its directory. */
  readonly file: string;
  readonly service: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const MeshFiles = object({ certFile: text(), keyFile: text(), rootsFile: text() });

/** Key of an upstream in the snapshot. */
export function fileUpstreamId(name: string): string {
  return `service:default/default/${name}`;
}

/** Never throws; mistakes are added to `problems`. */
export function fileCredentials(
  input: FileCredentialsInput,
  problems: Problem[],
  options: FileCredentialsOptions,
): FileCredentials {
  const { service, env } = options;
  const from = dirname(options.file);
  const plans: Record<string, CredentialsPlan> = {};
  const serverNames = new Map<string, string>();
  const node = { id: service, cluster: service, metadata: {} };
  const servers = parseSdsServers(input.sds ?? {}, { path: ["sds"], node });
  if (servers.kind === "invalid") problems.push(...servers.problems);
  const sdsServers = servers.kind === "valid" ? servers.servers : {};
  const warnings = servers.kind === "valid" ? [...servers.warnings] : [];

  const parse = (value: unknown, kind: TlsConfigContext["kind"], path: ConfigPath) => {
    const parsed = readPlan(value, { kind, path, sdsServers, node, env });
    if (parsed.kind === "valid") {
      warnings.push(...parsed.warnings);
      return parsed;
    }
    // Names of servers that could not be read are no second mistake.
    if (servers.kind === "valid") problems.push(...parsed.problems);
    return undefined;
  };

  const own = proxyCredentials(input, parse, problems);
  if (own) plans[own.key] = withPaths(own.plan, from);
  const proxyKey = own?.key === DEFAULT_PLAN ? DEFAULT_PLAN : null;
  const complete = (plan: CredentialsPlan, path: ConfigPath): CredentialsPlan => {
    const needsOwn = [...plan.certificates, plan.validation?.secret]
      .some((ref) => ref?.source.kind === "consul");
    if (needsOwn && !own) {
      const message = 'leaves its certificate or validation to "credentials", which is missing';
      problems.push({ path, message });
    }
    return withPaths(own?.key === DEFAULT_PLAN ? filled(plan, own.plan) : plan, from);
  };

  let inbound: string | null = proxyKey;
  if (input.inbound?.tls !== undefined) {
    const path = ["inbound", "tls"];
    const parsed = parse(input.inbound.tls, "listener", path);
    inbound = INBOUND_PLAN;
    if (parsed) plans[INBOUND_PLAN] = complete(parsed.plan, path);
    if (parsed?.plan.validation === null && input.defaultAction === "deny") {
      warnings.push(
        "inbound.tls asks nobody for a certificate, and intentions are about those who show one: " +
          'with defaultAction "deny" nobody gets in',
      );
    }
  }
  const upstreams = new Map<string, string>();
  const listeners = new Map<string, string>();
  input.upstreams.forEach(({ name, tls, listenerTls, identity, spiffeIds }, index) => {
    const id = fileUpstreamId(name);
    if (listenerTls !== undefined) {
      const path = ["upstreams", index, "listenerTls"];
      const parsed = parse(listenerTls, "listener", path);
      const key = `${id} listener`;
      listeners.set(id, key);
      if (parsed) plans[key] = complete(parsed.plan, path);
    }
    if (tls === undefined) {
      if (proxyKey !== null) upstreams.set(id, proxyKey);
      return;
    }
    const path = ["upstreams", index, "tls"];
    const parsed = parse(tls, "upstream", path);
    upstreams.set(id, id);
    if (!parsed) return;
    const plan = plans[id] = complete(parsed.plan, path);
    if (identity === undefined && spiffeIds === undefined && namesNobody(plan)) {
      const message =
        'is needed, or "spiffeIds", or sanMatchers in "tls"; nothing says who must answer';
      problems.push({ path: ["upstreams", index, "identity"], message });
    }
    if (parsed.sni !== undefined) serverNames.set(name, parsed.sni);
  });
  const needsProxy = (input.inbound && input.inbound.tls === undefined) ||
    input.upstreams.some(({ tls }) => tls === undefined);
  if (input.credentials === undefined && needsProxy) {
    const message = 'is missing; it may only be where everything has "tls" of its own';
    problems.push({ path: ["credentials"], message });
  }
  return { plans: { plans, inbound, upstreams, listeners, refused: [], warnings }, serverNames };
}

type Parse = (
  value: unknown,
  kind: TlsConfigContext["kind"],
  path: ConfigPath,
) => { readonly plan: CredentialsPlan } | undefined;

function proxyCredentials(
  { credentials, trustDomain }: FileCredentialsInput,
  parse: Parse,
  problems: Problem[],
): { readonly key: string; readonly plan: CredentialsPlan } | undefined {
  if (credentials === undefined) return undefined;
  const path = ["credentials"];
  const isFiles = typeof credentials === "object" && credentials !== null &&
    ["certFile", "keyFile", "rootsFile"].some((key) => key in credentials);
  if (!isFiles) {
    // Listeners are as strict as dialled connections: they require a certificate.
    const parsed = parse(credentials, "upstream", path);
    const plan = parsed && { ...parsed.plan, requireClientCertificate: true };
    return plan && { key: DEFAULT_PLAN, plan };
  }
  const files = v.safeParse(MeshFiles, credentials, { abortPipeEarly: true });
  if (!files.success) {
    for (const issue of files.issues) {
      const { path: below, message } = problemOf(issue);
      problems.push({ path: [...path, ...below], message });
    }
    return undefined;
  }
  if (trustDomain === undefined) {
    const message = "is missing: certFile, keyFile and rootsFile are those of a mesh";
    problems.push({ path: ["trustDomain"], message });
  }
  return { key: MESH_PLAN, plan: meshPlan(files.output) };
}

function meshPlan(
  files: { readonly certFile: string; readonly keyFile: string; readonly rootsFile: string },
): CredentialsPlan {
  const file = (path: string): DataSource => ({ kind: "file", path });
  const certificate: CertificateSpec = {
    type: "certificate",
    chain: file(files.certFile),
    key: file(files.keyFile),
  };
  const validation: ValidationSpec = {
    type: "validation",
    trustedCa: file(files.rootsFile),
    systemRoots: false,
    rules: NO_RULES,
  };
  const ref = (name: string, spec: SecretSpec): SecretRef => ({
    type: spec.type,
    name,
    source: { kind: "spec", spec, watch: true },
    initialFetchTimeoutMs: INITIAL_FETCH_TIMEOUT_MS,
  });
  return {
    certificates: [ref(files.certFile, certificate)],
    validation: { secret: ref(files.rootsFile, validation) },
    requireClientCertificate: true,
    onDemand: null,
  };
}

/** Every certificate of the CA is accepted. A secret from SDS or a secret file may add rules. */
function namesNobody({ validation }: CredentialsPlan): boolean {
  if (!validation) return true;
  const { secret: { source }, defaults } = validation;
  if (source.kind === "sds" || source.kind === "secret_file") return false;
  const own = source.kind === "spec" && source.spec.type === "validation" ? source.spec : undefined;
  return [own, defaults].every((spec) => {
    const { matchers, spkiPins, certificateHashes, acceptUntrusted } = spec?.rules ?? NO_RULES;
    return !acceptUntrusted && matchers.length + spkiPins.length + certificateHashes.length === 0;
  });
}

/** `plan` with the proxy's own in place of what it leaves to it. */
function filled(plan: CredentialsPlan, own: CredentialsPlan): CredentialsPlan {
  return {
    ...plan,
    certificates: plan.certificates.flatMap((ref) =>
      ref.source.kind === "consul" ? own.certificates : [ref]
    ),
    validation: plan.validation?.secret.source.kind === "consul" ? own.validation : plan.validation,
  };
}
