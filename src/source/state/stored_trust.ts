/**
 * Parts of a stored snapshot about trust: who we are, whom we believe, who may do what, and where the
 * credentials come from.
 *
 * @module
 */

import * as v from "valibot";
import { Amount, Texts, Version } from "./stored_values.ts";

export const Credentials = v.strictObject({
  version: Version,
  certPem: v.string(),
  keyPem: v.string(),
  rootPems: Texts,
  trustDomains: Texts,
  uri: v.string(),
  serial: v.string(),
  notBeforeMs: v.number(),
  notAfterMs: v.number(),
});

export const CertificateJson = v.strictObject({
  version: Version,
  name: v.string(),
  source: v.string(),
  certPem: v.string(),
  keyPem: v.string(),
  keyKind: v.picklist(["ecdsa", "rsa", "ed25519"]),
  dnsNames: Texts,
  uris: Texts,
  serial: v.string(),
  notBeforeMs: v.number(),
  notAfterMs: v.number(),
});

const Matcher = v.variant("kind", [
  v.strictObject({
    kind: v.picklist(["exact", "prefix", "suffix", "contains"]),
    value: v.string(),
    ignoreCase: v.boolean(),
  }),
  v.strictObject({ kind: v.literal("regex"), regex: v.string() }),
]);

const Rules = v.strictObject({
  matchers: v.array(v.strictObject({
    type: v.picklist(["email", "dns", "uri", "ip", "other_name"]),
    oid: v.exactOptional(v.string()),
    matcher: Matcher,
  })),
  spkiPins: Texts,
  certificateHashes: Texts,
  crlPems: Texts,
  onlyLeafCrl: v.boolean(),
  maxDepth: Amount,
  allowExpired: v.boolean(),
  acceptUntrusted: v.boolean(),
});

export const ValidationJson = v.strictObject({
  version: Version,
  name: v.string(),
  source: v.string(),
  validation: v.variant("kind", [
    v.strictObject({ kind: v.literal("mesh"), rootPems: Texts, trustDomains: Texts }),
    v.strictObject({ kind: v.literal("ca"), rootPems: Texts, rules: Rules }),
    v.strictObject({
      kind: v.literal("spiffe"),
      bundles: v.record(v.string(), Texts),
      rules: Rules,
    }),
  ]),
});

export const OwnCredentials = v.strictObject({
  version: Version,
  certificates: Texts,
  validation: v.nullable(v.string()),
  missing: Texts,
  requireClientCertificate: v.boolean(),
  onDemand: v.nullable(v.strictObject({
    names: Texts,
    suffixes: Texts,
    maxEntries: Amount,
    negativeTtlMs: Amount,
    perSourceRate: Amount,
    maxPending: Amount,
    waitMs: Amount,
  })),
  defaultName: v.nullable(v.string()),
  tls: v.nullable(v.strictObject({
    minVersion: v.picklist(["TLSv1.2", "TLSv1.3"]),
    maxVersion: v.picklist(["TLSv1.2", "TLSv1.3"]),
    cipherSuites: Texts,
  })),
  trustDomains: Texts,
});

const Tokens = v.exactOptional(v.array(v.strictObject({
  provider: v.string(),
  claims: v.array(v.strictObject({ path: Texts, value: v.string() })),
})));

const Permission = v.strictObject({
  action: v.picklist(["allow", "deny"]),
  path: v.exactOptional(v.strictObject({
    kind: v.picklist(["exact", "prefix", "regex"]),
    value: v.string(),
  })),
  methods: Texts,
  headers: v.array(v.strictObject({
    name: v.string(),
    kind: v.picklist(["present", "exact", "prefix", "suffix", "contains", "regex"]),
    value: v.string(),
    ignoreCase: v.boolean(),
    invert: v.boolean(),
  })),
  tokens: Tokens,
  refused: v.exactOptional(v.string()),
});

export const Policy = v.strictObject({
  version: Version,
  intentions: v.array(v.strictObject({
    rule: v.string(),
    source: v.strictObject({
      name: v.string(),
      namespace: v.string(),
      partition: v.string(),
      peer: v.string(),
      uri: v.exactOptional(v.string()),
    }),
    action: v.picklist(["allow", "deny", "permissions"]),
    permissions: v.exactOptional(v.array(Permission)),
    tokens: Tokens,
    refused: v.exactOptional(v.string()),
    precedence: v.number(),
  })),
  defaultAction: v.picklist(["allow", "deny"]),
});

const TlsDirection = v.strictObject({
  minVersion: v.picklist(["TLSv1.2", "TLSv1.3"]),
  maxVersion: v.picklist(["TLSv1.2", "TLSv1.3"]),
  cipherSuites: Texts,
});

export const Tls = v.strictObject({
  version: Version,
  incoming: TlsDirection,
  outgoing: TlsDirection,
  strictSpiffeChain: v.boolean(),
});

/** What people wrote stays as it is: the reader looks at it as closely as at what the agent says. */
const AsWritten = v.exactOptional(v.unknown());

const IngressTls = v.strictObject({
  enabled: v.boolean(),
  entry: v.unknown(),
  path: Texts,
  index: Amount,
});

export const CredentialFacts = v.strictObject({
  id: v.string(),
  service: v.string(),
  tls: AsWritten,
  ingress: v.exactOptional(v.strictObject({
    clusters: v.array(v.unknown()),
    edges: v.array(v.strictObject({ id: v.string(), tls: IngressTls })),
  })),
  upstreams: v.array(v.strictObject({
    id: v.string(),
    name: v.string(),
    tls: AsWritten,
    listenerTls: AsWritten,
    ingressTls: v.exactOptional(IngressTls),
  })),
});
