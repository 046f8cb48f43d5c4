/**
 * `/certs`: the mesh's certificate, its chain and its roots; and every certificate and CA in use,
 * wherever it came from, with how long each is still valid and who uses it. Fields that Envoy's
 * `/certs` has carry Envoy's names.
 *
 * @module
 */

import { type CertificatePart, type CredentialsPart, MESH_KEY } from "../../snapshot/mod.ts";
import type { Snapshot, ValidationPart } from "../../snapshot/mod.ts";
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
import { type CredentialsUser, secretUses } from "./credential_uses.ts";
import type { AdminView } from "../view.ts";

export interface CertificateShown {
  readonly serial: string;
  /** URI alternative names: the SPIFFE id. */
  readonly uris: readonly string[];
  readonly notBefore: string;
  readonly notAfter: string;
  /** Two decimals; negative: expired. */
  readonly daysLeft: number;
}

/** In the shape of Envoy's `CertificateDetails`; the last two fields are ours. */
export interface CertificateDetails {
  /** `<inline>` where it is not in a file. */
  readonly path: string;
  /** Hex. */
  readonly serial_number: string;
  readonly subject_alt_names: readonly Readonly<Record<string, string>>[];
  /** Whole days, 0 when expired. */
  readonly days_until_expiration: string;
  readonly valid_from: string;
  readonly expiration_time: string;
  /** Two decimals; negative: expired. */
  readonly days_left: number;
  /** A third of the lifetime is left, of an agent's leaf a twelfth, or less. */
  readonly near_expiry: boolean;
  /** Of a bundle of one trust domain among several. */
  readonly trust_domain?: string;
}

/** One secret in use: a chain that we show, or the CAs that we accept. */
export interface SecretCertificates {
  /** At its source: the resource, or the path. */
  readonly name: string;
  /** `file /etc/tls/web.pem`, `sds sds_cluster`, `workload unix:///run/spire.sock`, `consul`. */
  readonly source: string;
  readonly listeners: readonly string[];
  readonly upstreams: readonly string[];
  readonly ca_cert: readonly CertificateDetails[];
  readonly cert_chain: readonly CertificateDetails[];
}

export interface CertsShown {
  /** These five are about the mesh's own. */
  readonly uri: string;
  readonly trustDomains: readonly string[];
  readonly leaf: CertificateShown | null;
  /** What we present after the leaf. */
  readonly chain: readonly CertificateShown[];
  readonly roots: readonly CertificateShown[];
  readonly certificates: readonly SecretCertificates[];
  /** Certificates that could not be read, which should never happen. */
  readonly errors: readonly string[];
}

/** A PEM text of a part, its name in messages, and whose trust domain it is. */
interface Bundle {
  readonly what: string;
  readonly pem: string;
  readonly trustDomain?: string;
}

export function certsShown(view: AdminView): CertsShown {
  const snapshot = view.snapshot();
  const nowMs = view.clock.now();
  const errors: string[] = [];
  const read = (part: object, { what, pem }: Bundle): readonly CertificateFacts[] => {
    const facts = factsOfPem(part, what, pem);
    if (facts.kind === "read") return facts.certificates;
    errors.push(facts.error);
    return [];
  };
  const mesh = snapshot?.credentials;
  const [leaf = null, ...chain] = mesh ? read(mesh, leafOf(mesh)) : [];
  const roots = mesh ? rootsOf(mesh).flatMap((bundle) => read(mesh, bundle)) : [];
  const certificates = snapshot ? secretsInUse(view, snapshot, read) : [];
  return {
    uri: mesh?.uri ?? "",
    trustDomains: mesh?.trustDomains ?? [],
    leaf: leaf && show(leaf, nowMs),
    chain: chain.map((facts) => show(facts, nowMs)),
    roots: roots.map((facts) => show(facts, nowMs)),
    certificates,
    errors: [...new Set(errors)],
  };
}

function secretsInUse(
  view: AdminView,
  snapshot: Snapshot,
  read: (part: object, bundle: Bundle) => readonly CertificateFacts[],
): readonly SecretCertificates[] {
  const nowMs = view.clock.now();
  const uses = secretUses(snapshot);
  const shown: SecretCertificates[] = [];
  const add = (
    kind: "ca_cert" | "cert_chain",
    part: object,
    secret: {
      readonly origin: Origin;
      readonly users: readonly CredentialsUser[] | undefined;
      readonly bundles: readonly Bundle[];
    },
  ) => {
    const { origin, users = [], bundles } = secret;
    const path = pathOf(origin.source);
    const isAgentLeaf = kind === "cert_chain" && origin.source === "consul";
    const nearExpiry = isAgentLeaf ? NEAR_EXPIRY_OF_AGENT_LEAF : undefined;
    const details = bundles.flatMap((bundle) =>
      read(part, bundle).map((facts) => ({
        ...detailsOf(facts, path, nowMs),
        near_expiry: isNearExpiry(facts, nowMs, nearExpiry),
        ...(bundle.trustDomain !== undefined && { trust_domain: bundle.trustDomain }),
      }))
    );
    const namesOf = (of: CredentialsUser["kind"]) =>
      users.filter((user) => user.kind === of).map(({ id }) => id);
    shown.push({
      name: origin.name,
      source: origin.source,
      listeners: namesOf("listener"),
      upstreams: namesOf("upstream"),
      ca_cert: [],
      cert_chain: [],
      [kind]: details,
    });
  };
  const { credentials: mesh, certificates, validations } = snapshot;
  if (mesh) {
    const origins = meshOrigins(view, snapshot);
    const leafUsers = uses.certificates.get(MESH_KEY);
    const rootUsers = uses.validations.get(MESH_KEY);
    const leaf = { origin: origins.leaf, users: leafUsers, bundles: [leafOf(mesh)] };
    add("cert_chain", mesh, leaf);
    add("ca_cert", mesh, { origin: origins.roots, users: rootUsers, bundles: rootsOf(mesh) });
  }
  for (const [key, part] of Object.entries(certificates)) {
    const users = uses.certificates.get(key);
    add("cert_chain", part, { origin: part, users, bundles: [chainOf(part)] });
  }
  for (const [key, part] of Object.entries(validations)) {
    const users = uses.validations.get(key);
    add("ca_cert", part, { origin: part, users, bundles: bundlesOf(part) });
  }
  return shown;
}

/** The proxy's own certificate and how long it is valid, for people; "" where there is none. */
export function meshLeafText(snapshot: Snapshot | undefined, nowMs: number): string {
  const mesh = snapshot?.credentials;
  if (!mesh) return "";
  return `valid until ${dateText(mesh.notAfterMs)}, ${timeLeft(mesh, nowMs)}`;
}

interface Origin {
  readonly name: string;
  readonly source: string;
}

/** Of a configuration file its own credentials come from the store of secrets, too. */
function meshOrigins(
  view: AdminView,
  { credentials, validations }: Snapshot,
): { readonly leaf: Origin; readonly roots: Origin } {
  if (view.source()?.kind !== "file") {
    return {
      leaf: { name: "leaf", source: "consul" },
      roots: { name: "roots", source: "consul" },
    };
  }
  const { statuses } = view.secretsReport();
  const leaf = statuses.find(({ certificate }) => certificate?.serial === credentials?.serial);
  const roots = statuses.find(({ type, key }) =>
    type === "validation" && !Object.hasOwn(validations, key)
  );
  return {
    leaf: leaf ?? { name: "leaf", source: "file" },
    roots: roots ?? { name: "roots", source: "file" },
  };
}

function leafOf({ certPem }: CredentialsPart): Bundle {
  return { what: "leaf certificate", pem: certPem };
}

function rootsOf({ rootPems }: CredentialsPart): readonly Bundle[] {
  return rootPems.map((pem, index) => ({ what: `root certificate ${index}`, pem }));
}

function chainOf({ name, certPem }: CertificatePart): Bundle {
  return { what: `certificate ${name}`, pem: certPem };
}

function bundlesOf({ name, validation }: ValidationPart): readonly Bundle[] {
  const what = `CA of ${name}`;
  switch (validation.kind) {
    case "mesh":
    case "ca":
      return validation.rootPems.map((pem, index) => ({ what: `${what} ${index}`, pem }));
    case "spiffe":
      return Object.entries(validation.bundles).flatMap(([trustDomain, pems]) =>
        pems.map((pem, index) => ({ what: `${what} ${trustDomain} ${index}`, pem, trustDomain }))
      );
  }
}

function pathOf(source: string): string {
  return source.startsWith("file /") ? source.slice("file ".length) : "<inline>";
}

function detailsOf(
  facts: CertificateFacts,
  path: string,
  nowMs: number,
): Omit<CertificateDetails, "near_expiry" | "trust_domain"> {
  const { serial, dnsNames, uris, ips, emails, notBeforeMs, notAfterMs } = facts;
  return {
    path,
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

function show(facts: CertificateFacts, nowMs: number): CertificateShown {
  const { serial, uris, notBeforeMs, notAfterMs } = facts;
  return {
    serial,
    uris,
    notBefore: dateText(notBeforeMs),
    notAfter: dateText(notAfterMs),
    daysLeft: daysLeft(facts, nowMs),
  };
}
