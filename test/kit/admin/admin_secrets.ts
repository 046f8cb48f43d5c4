/**
 * A proxy with secrets of every kind of source, as the admin server sees it: a certificate from a file
 * on the inbound listener, one from SDS for an upstream, bundles of two trust domains, one secret that
 * has not come and one upstream that waits for it.
 *
 * @module
 */

import type { EventSeverity } from "../../../src/base/mod.ts";
import { createAuthority } from "../certs/authority.ts";
import { NO_RULES } from "../../../src/identity/mod.ts";
import type { SecretStatus } from "../../../src/secrets/mod.ts";
import type { CertificatePart, OwnCredentialsPart, Snapshot } from "../../../src/snapshot/mod.ts";
import { type FakeAdminView, fakeAdminView } from "./admin_view.ts";
import { declared, inboundOf, targetOf } from "../engine/snapshots.ts";

export const WEB_FILE = "/etc/tls/web.pem";
const FILE_SOURCE = `file ${WEB_FILE}`;
const DB = "service:default/default/db";
const SDS_SOURCE = "sds sds_cluster";

interface AdminSecrets {
  readonly view: FakeAdminView;
  /** Every key that must not be shown. */
  readonly keyPems: readonly string[];
  readonly web: CertificatePart;
  readonly db: CertificatePart;
}

export function fakeAdminSecrets(): AdminSecrets {
  const view = fakeAdminView();
  const base = view.snapshot();
  const status = view.source();
  if (!base || !status) throw new Error("the view has no snapshot");
  const nowMs = view.clock.now();
  const authority = createAuthority({ trustDomain: "other.example", nowMs });
  const certificate = (
    service: string,
    options: { readonly source: string; readonly ttlMs: number },
  ): CertificatePart => {
    const leaf = authority.issueLeaf({ service, nowMs, ttlMs: options.ttlMs });
    return {
      version: 3,
      name: service === "web" ? WEB_FILE : `${service}-cert`,
      source: options.source,
      certPem: leaf.certPem,
      keyPem: leaf.keyPem,
      keyKind: "ecdsa",
      dnsNames: [],
      uris: [leaf.uri],
      serial: `0${service.length}:ab`,
      notBeforeMs: leaf.notBeforeMs,
      notAfterMs: leaf.notAfterMs,
    };
  };
  const web = certificate("web", { source: FILE_SOURCE, ttlMs: 30 * 86_400_000 });
  const db = certificate("db", { source: SDS_SOURCE, ttlMs: 3_600_000 });
  const snapshot: Snapshot = {
    ...base,
    certificates: { "spec:web": web, "sds:db": db },
    validations: {
      "sds:roots": {
        version: 1,
        name: "roots",
        source: SDS_SOURCE,
        validation: {
          kind: "spiffe",
          bundles: { "other.example": [authority.rootPem] },
          rules: {
            ...NO_RULES,
            matchers: [{
              type: "uri",
              matcher: { kind: "prefix", value: "spiffe://other.example/", ignoreCase: false },
            }],
          },
        },
      },
    },
    ownCredentials: {
      inbound: own({ certificates: ["spec:web"], validation: "sds:roots" }),
      [DB]: own({ certificates: ["sds:db"], validation: "consul" }),
    },
    inbound: {
      inbound: inboundOf({
        local: { kind: "tcp", host: "127.0.0.1", port: 8_080 },
        credentials: "inbound",
      }, 21_000),
    },
    ...declared({ name: "db", targets: ["db.default.dc1"], credentials: DB }),
    targets: { "db.default.dc1": targetOf({ name: "db.default.dc1", uris: [], ports: [] }) },
  };
  const statuses: readonly SecretStatus[] = [
    statusOf("spec:web", web, ""),
    statusOf("sds:db", db, "7"),
    {
      key: "sds:roots",
      type: "validation",
      name: "roots",
      source: SDS_SOURCE,
      state: "active",
      version: "5",
      updatedMs: nowMs,
      fault: "",
    },
    {
      key: "sds:late",
      type: "certificate",
      name: "late",
      source: SDS_SOURCE,
      state: "warming",
      version: "uninitialized",
      updatedMs: 0,
      fault: "connection refused <by> 127.0.0.1:9",
    },
  ];
  const report = (text: string, severity: EventSeverity = "info") =>
    view.journal.report({ kind: "secret", subject: WEB_FILE, text, severity });
  report("loaded (file web.pem): serial 01");
  report("rotated (file web.pem): serial 02, was 01");
  report("rejected (file web.pem): Cannot use web.pem:\nkey does not match", "warn");
  Object.assign(view, {
    snapshot: () => snapshot,
    source: () => ({
      ...status,
      warming: ["secrets of service:default/default/late (late, roots)"],
    }),
    secretsReport: () => ({ statuses }),
  });
  return { view, keyPems: [view.keyPem, web.keyPem, db.keyPem], web, db };

  function statusOf(key: string, part: CertificatePart, version: string): SecretStatus {
    const { name, source, serial, dnsNames, uris, notBeforeMs, notAfterMs } = part;
    return {
      key,
      name,
      source,
      version,
      type: "certificate",
      state: "active",
      updatedMs: nowMs,
      fault: "",
      certificate: { serial, dnsNames, uris, notBeforeMs, notAfterMs },
    };
  }
}

function own(
  { certificates, validation }: Pick<OwnCredentialsPart, "certificates" | "validation">,
): OwnCredentialsPart {
  return {
    version: 1,
    certificates,
    validation,
    missing: [],
    requireClientCertificate: true,
    onDemand: null,
    defaultName: null,
    tls: null,
    trustDomains: [],
  };
}
