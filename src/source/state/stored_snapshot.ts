/**
 * A snapshot, and where its credentials come from, as the text of a file, and back. What is read is
 * checked as if a stranger had written it.
 *
 * @module
 */

import * as v from "valibot";
import { messageOf } from "../../base/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { StoredState } from "./stored_credentials.ts";

/** Rises when a snapshot of an older version can no longer be served. */
const SCHEMA = 6;
/** Rises when the facts about credentials mean something else; states from before them have none. */
const CREDENTIALS_FORMAT = 1;

const Port = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535));
const Amount = v.pipe(v.number(), v.finite(), v.minValue(0));
const Version = v.pipe(v.number(), v.safeInteger(), v.minValue(1));
const Texts = v.array(v.string());

const TcpAddress = v.strictObject({ kind: v.literal("tcp"), host: v.string(), port: Port });
const LocalAddress = v.variant("kind", [
  TcpAddress,
  v.strictObject({ kind: v.literal("unix"), path: v.string() }),
]);
const BindAddress = v.variant("kind", [
  TcpAddress,
  v.strictObject({
    kind: v.literal("unix"),
    path: v.string(),
    mode: v.exactOptional(Amount),
  }),
]);

const Endpoint = v.strictObject({
  id: v.string(),
  host: v.string(),
  port: Port,
  weight: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(128)),
});

const Credentials = v.strictObject({
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

const CertificateJson = v.strictObject({
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

const ValidationJson = v.strictObject({
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

const OwnCredentials = v.strictObject({
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
  refused: v.exactOptional(v.string()),
});

const Policy = v.strictObject({
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

const Tls = v.strictObject({
  version: Version,
  incoming: TlsDirection,
  outgoing: TlsDirection,
  strictSpiffeChain: v.boolean(),
});

const AccessLog = v.strictObject({
  version: Version,
  to: v.variant("kind", [
    v.strictObject({ kind: v.picklist(["stdout", "stderr"]) }),
    v.strictObject({ kind: v.literal("file"), path: v.string() }),
  ]),
  format: v.variant("kind", [
    v.strictObject({ kind: v.literal("default") }),
    v.strictObject({ kind: v.literal("text"), text: v.string() }),
    v.strictObject({ kind: v.literal("json"), json: v.string() }),
  ]),
  listeners: v.boolean(),
});

const Http = v.strictObject({
  protocol: v.picklist(["http", "http2", "grpc"]),
  path: v.strictObject({
    normalize: v.boolean(),
    mergeSlashes: v.boolean(),
    escapedSlashes: v.picklist(["keep", "reject", "unescape", "redirect"]),
    underscores: v.picklist(["allow", "reject", "drop"]),
  }),
  sanitizeForwardedClientCert: v.boolean(),
  headBytes: Amount,
  requestTimeoutMs: Amount,
  streamIdleTimeoutMs: Amount,
  showDenials: v.boolean(),
});

const Inbound = v.strictObject({
  version: Version,
  bind: TcpAddress,
  local: LocalAddress,
  http: v.nullable(Http),
  localConnectTimeoutMs: Amount,
  handshakeTimeoutMs: Amount,
  maxConnections: Amount,
  authorize: v.picklist(["match", "both"]),
  credentials: v.nullable(v.string()),
});

const Exposed = v.strictObject({
  version: Version,
  bind: TcpAddress,
  path: v.string(),
  local: LocalAddress,
  localConnectTimeoutMs: Amount,
  http: Http,
});

const TlsListener = v.nullable(
  v.strictObject({ credentials: v.string(), handshakeTimeoutMs: Amount }),
);

const Upstream = v.strictObject({
  version: Version,
  id: v.string(),
  name: v.string(),
  bind: v.nullable(BindAddress),
  chain: v.string(),
  http: v.nullable(Http),
  maxConnections: Amount,
  maxPending: Amount,
  maxRequests: Amount,
  idleTimeoutMs: Amount,
  lifetimeMs: Amount,
  credentials: v.nullable(v.string()),
  listener: TlsListener,
});

const HeaderText = v.tuple([v.string(), v.string()]);
const HeaderChanges = v.exactOptional(v.strictObject({
  remove: Texts,
  set: v.array(HeaderText),
  add: v.array(HeaderText),
}));

const Edge = v.strictObject({
  version: Version,
  id: v.string(),
  bind: TcpAddress,
  http: Http,
  listener: TlsListener,
  hosts: v.array(v.strictObject({
    names: Texts,
    upstream: v.string(),
    requestHeaders: HeaderChanges,
    responseHeaders: HeaderChanges,
  })),
});

const Chain = v.strictObject({
  version: Version,
  resolver: v.strictObject({
    targets: Texts,
    balancing: v.variant("kind", [
      v.strictObject({ kind: v.picklist(["round_robin", "random", "maglev"]) }),
      v.strictObject({ kind: v.literal("least_request"), choiceCount: Amount }),
      v.strictObject({ kind: v.literal("ring_hash"), minimumSize: Amount, maximumSize: Amount }),
    ]),
    outlier: v.strictObject({
      maxFailures: Amount,
      enforcingPercent: Amount,
      intervalMs: Amount,
      baseEjectionMs: Amount,
      maxEjectionMs: Amount,
      maxEjectionPercent: Amount,
    }),
  }),
});

const Target = v.strictObject({
  version: Version,
  key: v.string(),
  sni: v.string(),
  spiffeUris: Texts,
  connectTimeoutMs: Amount,
  endpoints: v.array(Endpoint),
  lastResort: v.array(Endpoint),
  lack: v.string(),
});

/** What people wrote stays as it is: the reader looks at it as closely as at what the agent says. */
const AsWritten = v.exactOptional(v.unknown());

const IngressTls = v.strictObject({
  enabled: v.boolean(),
  entry: v.unknown(),
  path: Texts,
  index: Amount,
});

const CredentialFacts = v.strictObject({
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

/** A part without a schema, or with one that gives something else, does not compile. */
const SNAPSHOT = {
  version: Version,
  service: v.string(),
  proxyId: v.string(),
  datacenter: v.string(),
  credentials: v.nullable(Credentials),
  certificates: v.record(v.string(), CertificateJson),
  validations: v.record(v.string(), ValidationJson),
  ownCredentials: v.record(v.string(), OwnCredentials),
  policy: Policy,
  tls: Tls,
  accessLog: v.nullable(AccessLog),
  inbound: v.record(v.string(), Inbound),
  exposed: v.record(v.string(), Exposed),
  upstreams: v.record(v.string(), Upstream),
  edges: v.record(v.string(), Edge),
  chains: v.record(v.string(), Chain),
  targets: v.record(v.string(), Target),
} satisfies { readonly [Part in keyof Snapshot]: v.GenericSchema<unknown, Snapshot[Part]> };

const Stored = v.strictObject({
  schema: v.literal(SCHEMA),
  savedAtMs: v.number(),
  snapshot: v.strictObject(SNAPSHOT),
  credentials: v.exactOptional(v.strictObject({
    format: v.literal(CREDENTIALS_FORMAT),
    salt: v.pipe(v.string(), v.minLength(1)),
    registration: CredentialFacts,
  })),
});

export type ParsedStored =
  | { readonly kind: "valid"; readonly state: StoredState; readonly savedAtMs: number }
  | { readonly kind: "invalid"; readonly reason: string };

export function formatStored({ snapshot, credentials }: StoredState, nowMs: number): string {
  return JSON.stringify({
    schema: SCHEMA,
    savedAtMs: nowMs,
    snapshot,
    ...(credentials && { credentials: { format: CREDENTIALS_FORMAT, ...credentials } }),
  });
}

/** Never throws. The reason quotes nothing of the text: it holds a key. */
export function parseStored(text: string): ParsedStored {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The engine's message may quote the text.
    return { kind: "invalid", reason: "it is not JSON" };
  }
  try {
    const result = v.safeParse(Stored, value, { abortEarly: true });
    if (!result.success) {
      const at = v.getDotPath(result.issues[0]) ?? "the whole";
      return { kind: "invalid", reason: `${at} is not as it was written by this version` };
    }
    const { snapshot, savedAtMs, credentials } = result.output;
    if (!credentials) return { kind: "valid", state: { snapshot }, savedAtMs };
    const { salt, registration } = credentials;
    return { kind: "valid", state: { snapshot, credentials: { salt, registration } }, savedAtMs };
  } catch (error) {
    return { kind: "invalid", reason: messageOf(error) };
  }
}
