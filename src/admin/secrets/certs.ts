/** `/certs`: the mesh certificate, then every certificate and CA in use with its users. @module */

import {
  type CredentialsPart,
  MESH_KEY,
  type Snapshot,
  type ValidationPart,
} from "../../snapshot/mod.ts";
import type { AdminView } from "../view.ts";
import { renewalByConsul, renewalOfSecret } from "./renewal.ts";
import {
  type CertificateFacts,
  dateText,
  daysLeft,
  factsOfPem,
  isNearExpiry,
  NEAR_EXPIRY_OF_AGENT_LEAF,
  timeLeft,
  wholeDaysLeft,
} from "./certificate_facts.ts";

type CertsPage = Readonly<Record<string, unknown>>;

interface Bundle {
  readonly part: object;
  /** Name in messages. */
  readonly what: string;
  readonly pem: string;
  /** Set for a bundle of one trust domain among several. */
  readonly trustDomain?: string;
}

interface Origin {
  /** Name at the source: a resource or a path. */
  readonly name: string;
  /** `file /etc/tls/web.pem`, `sds sds_cluster`, `workload unix:///run/spire.sock`, `consul`. */
  readonly source: string;
}

/** A chain that this proxy shows, or the CAs that it accepts. */
interface SecretInUse {
  readonly kind: "ca_cert" | "cert_chain";
  /** The key of its status. */
  readonly key: string;
  readonly origin: Origin;
  readonly users: readonly CredentialsUser[] | undefined;
  readonly bundles: readonly Bundle[];
}

/** `errors`: certificates that could not be read, which should never happen. */
export function certsShown(view: AdminView): CertsPage {
  const snapshot = view.snapshot();
  const nowMs = view.clock.now();
  const errors = new Set<string>();
  const read = ({ part, what, pem }: Bundle): readonly CertificateFacts[] => {
    const facts = factsOfPem(part, what, pem);
    if (facts.kind === "read") return facts.certificates;
    errors.add(facts.error);
    return [];
  };
  const show = (facts: CertificateFacts) => ({
    serial: facts.serial,
    uris: facts.uris,
    notBefore: dateText(facts.notBeforeMs),
    notAfter: dateText(facts.notAfterMs),
    daysLeft: daysLeft(facts, nowMs),
  });
  const mesh = snapshot?.credentials;
  const [leaf, ...chain] = mesh ? read(leafOf(mesh)) : [];
  const roots = mesh ? rootsOf(mesh).flatMap(read) : [];
  const secrets = snapshot ? secretsInUse(view, snapshot) : [];
  const { statuses } = view.secretsReport();
  const certificates = secrets.map(
    ({ kind, key, origin: { name, source }, users = [], bundles }) => {
      const usersOf = (wanted: CredentialsUser["kind"]) =>
        users.filter((user) => user.kind === wanted).map(({ id }) => id);
      const isAgentLeaf = kind === "cert_chain" && source === "consul";
      const nearExpiry = isAgentLeaf ? NEAR_EXPIRY_OF_AGENT_LEAF : undefined;
      const details = bundles.flatMap((bundle) =>
        read(bundle).map((facts) => ({
          path: source.startsWith("file /") ? source.slice("file ".length) : "<inline>",
          ...detailsOf(facts, nowMs),
          near_expiry: isNearExpiry(facts, nowMs, nearExpiry),
          ...(bundle.trustDomain !== undefined && { trust_domain: bundle.trustDomain }),
        }))
      );
      const renewal = kind === "ca_cert"
        ? undefined
        : isAgentLeaf && mesh
        ? renewalByConsul(view, mesh)
        : renewalOfSecret(statuses.find((one) => one.key === key));
      return {
        name,
        source,
        ...renewal && { renewal },
        listeners: usersOf("listener"),
        upstreams: usersOf("upstream"),
        ca_cert: [],
        cert_chain: [],
        [kind]: details,
      };
    },
  );
  return {
    uri: mesh?.uri ?? "",
    trustDomains: mesh?.trustDomains ?? [],
    leaf: leaf ? show(leaf) : null,
    chain: chain.map(show),
    roots: roots.map(show),
    certificates,
    errors: [...errors],
  };
}

/** A certificate in use, for people. */
export interface CertificateShown extends Pick<CertificateFacts, "notBeforeMs" | "notAfterMs"> {
  readonly kind: "certificate" | "CA";
  readonly name: string;
  readonly source: string;
  /** Names that it proves; empty for a CA. */
  readonly names: readonly string[];
  readonly isNearExpiry: boolean;
}

/** The leaf of each chain and every CA in use, the first to expire first. */
export function certificatesInUse(view: AdminView): readonly CertificateShown[] {
  const snapshot = view.snapshot();
  if (!snapshot) return [];
  const nowMs = view.clock.now();
  const shown = secretsInUse(view, snapshot).flatMap(({ kind, origin, bundles }) => {
    const isAgentLeaf = kind === "cert_chain" && origin.source === "consul";
    const share = isAgentLeaf ? NEAR_EXPIRY_OF_AGENT_LEAF : undefined;
    return bundles.flatMap(({ part, what, pem }): CertificateShown[] => {
      const facts = factsOfPem(part, what, pem);
      if (facts.kind === "failed") return [];
      const wanted = kind === "ca_cert" ? facts.certificates : facts.certificates.slice(0, 1);
      return wanted.map((one) => ({
        kind: kind === "ca_cert" ? "CA" : "certificate",
        name: origin.name,
        source: origin.source,
        names: kind === "ca_cert" ? [] : [...one.uris, ...one.dnsNames, ...one.ips],
        notBeforeMs: one.notBeforeMs,
        notAfterMs: one.notAfterMs,
        isNearExpiry: isNearExpiry(one, nowMs, share),
      }));
    });
  });
  return shown.toSorted((a, b) => a.notAfterMs - b.notAfterMs);
}

/** The validity of the proxy's own certificate as text; `""`: there is none. */
export function meshLeafText(snapshot: Snapshot | undefined, nowMs: number): string {
  const mesh = snapshot?.credentials;
  if (!mesh) return "";
  return `valid until ${dateText(mesh.notAfterMs)}, ${timeLeft(mesh, nowMs)}`;
}

function secretsInUse(view: AdminView, snapshot: Snapshot): readonly SecretInUse[] {
  const uses = secretUses(snapshot);
  const { credentials: mesh, certificates, validations } = snapshot;
  const secrets: SecretInUse[] = [];
  const addChain = (key: string, origin: Origin, bundle: Bundle) => {
    const users = uses.certificates.get(key);
    secrets.push({ kind: "cert_chain", key, origin, users, bundles: [bundle] });
  };
  const addRoots = (key: string, origin: Origin, bundles: readonly Bundle[]) => {
    secrets.push({ kind: "ca_cert", key, origin, users: uses.validations.get(key), bundles });
  };
  if (mesh) {
    const origins = meshOrigins(view, snapshot);
    const users = uses.certificates.get(MESH_KEY);
    const { key } = origins.leaf;
    const bundles = [leafOf(mesh)];
    secrets.push({ kind: "cert_chain", key, origin: origins.leaf, users, bundles });
    addRoots(MESH_KEY, origins.roots, rootsOf(mesh));
  }
  for (const [key, part] of Object.entries(certificates)) {
    addChain(key, part, { part, what: `certificate ${part.name}`, pem: part.certPem });
  }
  for (const [key, part] of Object.entries(validations)) addRoots(key, part, bundlesOf(part));
  return secrets;
}

/** With a configuration file, the proxy's own credentials come from the store of secrets, too. */
function meshOrigins(
  view: AdminView,
  { credentials, validations }: Snapshot,
): { readonly leaf: Origin & { readonly key: string }; readonly roots: Origin } {
  if (view.source()?.kind !== "file") {
    const roots = { name: "roots", source: "consul" };
    return { leaf: { key: MESH_KEY, name: "leaf", source: "consul" }, roots };
  }
  const { statuses } = view.secretsReport();
  const leaf = statuses.find(({ certificate }) => certificate?.serial === credentials?.serial);
  const roots = statuses.find(({ type, key }) =>
    type === "validation" && !Object.hasOwn(validations, key)
  );
  return {
    leaf: leaf ?? { key: MESH_KEY, name: "leaf", source: "file" },
    roots: roots ?? { name: "roots", source: "file" },
  };
}

function leafOf(part: CredentialsPart): Bundle {
  return { part, what: "leaf certificate", pem: part.certPem };
}

function rootsOf(part: CredentialsPart): readonly Bundle[] {
  return part.rootPems.map((pem, index) => ({ part, what: `root certificate ${index}`, pem }));
}

function bundlesOf(part: ValidationPart): readonly Bundle[] {
  const { name, validation } = part;
  const what = `CA of ${name}`;
  switch (validation.kind) {
    case "mesh":
    case "ca":
      return validation.rootPems.map((pem, index) => ({ part, what: `${what} ${index}`, pem }));
    case "spiffe":
      return Object.entries(validation.bundles).flatMap(([trustDomain, pems]) =>
        pems.map((pem, index) => {
          return { part, what: `${what} ${trustDomain} ${index}`, pem, trustDomain };
        })
      );
  }
}

/** In the shape of Envoy's `CertificateDetails`; `days_left` is ours. */
function detailsOf(facts: CertificateFacts, nowMs: number): Readonly<Record<string, unknown>> {
  const { serial, dnsNames, uris, ips, emails, notBeforeMs, notAfterMs } = facts;
  return {
    serial_number: serial.replaceAll(":", ""),
    subject_alt_names: [
      ...dnsNames.map((dns) => ({ dns })),
      ...uris.map((uri) => ({ uri })),
      ...ips.map((ip) => ({ ip_address: ip })),
      ...emails.map((email) => ({ email })),
    ],
    days_until_expiration: String(wholeDaysLeft(facts, nowMs)),
    valid_from: secondsText(notBeforeMs),
    expiration_time: secondsText(notAfterMs),
    days_left: daysLeft(facts, nowMs),
  };
}

/** Envoy prints no fraction. */
function secondsText(atMs: number): string {
  return dateText(atMs).replace(/\.\d+Z$/, "Z");
}

/** A listener uses credentials towards callers, an upstream towards its instances. */
interface CredentialsUser {
  readonly kind: "listener" | "upstream";
  /** The listener's name as in `/listeners`; an upstream's id is also the name of its listener. */
  readonly id: string;
  readonly name: string;
  /** Key into `ownCredentials`; `null`: the proxy's own. */
  readonly credentials: string | null;
}

interface SecretUses {
  /** Users by key of the certificate, `MESH_KEY` among them. */
  readonly certificates: ReadonlyMap<string, readonly CredentialsUser[]>;
  /** Users by key of the validation. */
  readonly validations: ReadonlyMap<string, readonly CredentialsUser[]>;
}

export function credentialsUsers(snapshot: Snapshot): readonly CredentialsUser[] {
  const users: CredentialsUser[] = [];
  for (const [id, { credentials }] of Object.entries(snapshot.inbound)) {
    users.push({ kind: "listener", id, name: id, credentials });
  }
  for (const { id, name, credentials, listener } of Object.values(snapshot.upstreams)) {
    users.push({ kind: "upstream", id, name, credentials });
    if (listener) users.push({ kind: "listener", id, name, credentials: listener.credentials });
  }
  return users;
}

/** Keys of the certificates and of the validation in these credentials. */
export function secretsOf(
  snapshot: Snapshot,
  credentials: string | null,
): { readonly certificates: readonly string[]; readonly validation: string | null } {
  if (credentials === null) return { certificates: [MESH_KEY], validation: MESH_KEY };
  return snapshot.ownCredentials[credentials] ?? { certificates: [], validation: null };
}

function secretUses(snapshot: Snapshot): SecretUses {
  const certificates = new Map<string, CredentialsUser[]>();
  const validations = new Map<string, CredentialsUser[]>();
  for (const user of credentialsUsers(snapshot)) {
    const { certificates: keys, validation } = secretsOf(snapshot, user.credentials);
    for (const key of keys) add(certificates, key, user);
    if (validation !== null) add(validations, validation, user);
  }
  return { certificates, validations };
}

function add(map: Map<string, CredentialsUser[]>, key: string, user: CredentialsUser): void {
  const users = map.get(key);
  if (users) users.push(user);
  else map.set(key, [user]);
}
