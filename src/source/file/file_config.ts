/**
 * The format of `-config FILE`: a whole proxy without Consul, as JSON. Strict: what is not understood is
 * an error that says where it is. All problems are reported at once.
 *
 * @example
 * {
 *   "service": "web",
 *   "trustDomain": "mesh.example",
 *   "credentials": { "certFile": "web.pem", "keyFile": "web.key", "rootsFile": "roots.pem" },
 *   "inbound": { "bind": "0.0.0.0:20000", "local": "127.0.0.1:8080" },
 *   "upstreams": [{
 *     "name": "db",
 *     "bind": "127.0.0.1:9191",
 *     "addresses": ["10.0.0.7:20000", { "host": "10.0.0.8", "port": 20000, "weight": 2 }],
 *     "identity": { "service": "db" }
 *   }],
 *   "intentions": [{ "source": "shop", "action": "allow" }]
 * }
 *
 * @module
 */

import * as v from "valibot";
import { parseTrustDomain } from "../../identity/mod.ts";
import { formatPath, type Problem, problemOf } from "../../secrets/mod.ts";
import { type Place, readJson } from "../../wire/mod.ts";
import { contradictions } from "./file_config_contradictions.ts";
import {
  address,
  bindAddress,
  count,
  duration,
  host,
  name,
  object,
  octalMode,
  port,
  spiffeId,
  spiffePattern,
  text,
} from "./file_config_values.ts";
import {
  type FileCredentials,
  fileCredentials,
  type FileCredentialsOptions,
} from "./file_credentials.ts";

const Identity = object({
  service: name(),
  datacenter: v.optional(name()),
  namespace: v.optional(name(), "default"),
  partition: v.optional(name(), "default"),
});

const EndpointText = address({ unix: false });
const EndpointFields = object({
  host: host(),
  port: port(1),
  weight: v.optional(count(1, 128), 1),
});
// Not a union, which would only say that it is neither.
const Endpoint = v.lazy((input) =>
  typeof input === "object" && input !== null ? EndpointFields : EndpointText
);

const Balancing = v.variant("kind", [
  object({ kind: v.picklist(["round_robin", "random", "maglev"]) }),
  object({
    kind: v.literal("least_request"),
    choiceCount: v.optional(count(2, 100), 2),
  }),
  object({
    kind: v.literal("ring_hash"),
    minimumSize: v.optional(count(1, 8_388_608), 1_024),
    maximumSize: v.optional(count(1, 8_388_608), 8_388_608),
  }),
], "must be round_robin, random, least_request, ring_hash or maglev");

const Outlier = object({
  maxFailures: v.optional(count(0, 1_000_000)),
  enforcingPercent: v.optional(count(0, 100)),
  interval: v.optional(duration(1)),
  baseEjection: v.optional(duration(0)),
  maxEjection: v.optional(duration(0)),
  maxEjectionPercent: v.optional(count(0, 100)),
});

const Upstream = object({
  name: name(),
  bind: bindAddress(),
  /** Of a unix socket: `"0600"`. */
  socketMode: v.optional(octalMode()),
  addresses: v.pipe(v.array(Endpoint), v.maxLength(10_000, "has more than 10000 entries")),
  /** Who must answer: a service of this trust domain, or any of these ids. */
  identity: v.optional(Identity),
  spiffeIds: v.optional(v.pipe(v.array(spiffeId()), v.nonEmpty("must not be empty"))),
  sni: v.optional(text()),
  balancing: v.optional(
    v.union([
      v.pipe(
        v.picklist(["round_robin", "random", "maglev", "least_request", "ring_hash"]),
        v.transform((kind) => v.parse(Balancing, { kind })),
      ),
      Balancing,
    ], "must be round_robin, random, least_request, ring_hash or maglev"),
    "round_robin",
  ),
  outlier: v.optional(Outlier, {}),
  connectTimeout: v.optional(duration(1), "5s"),
  idleTimeout: v.optional(duration(0)),
  lifetime: v.optional(duration(0)),
  maxConnections: v.optional(count(0, 4_294_967_295), 1_024),
  maxPending: v.optional(count(0, 4_294_967_295), 1_024),
  /** Credentials of its own; read by `file_credentials.ts`. */
  tls: v.optional(v.unknown()),
  /** TLS that its callers must speak; absent: they speak plainly. */
  listenerTls: v.optional(v.unknown()),
  handshakeTimeout: v.optional(duration(1), "10s"),
});

const Version = v.picklist(["1.2", "1.3"], 'must be "1.2" or "1.3"');

const TlsDirection = object({
  minVersion: v.optional(Version, "1.2"),
  maxVersion: v.optional(Version, "1.3"),
  /** IANA names, for TLS 1.2. */
  cipherSuites: v.optional(v.array(text()), []),
});

const Intention = object({
  /** A service name, `*`, or a SPIFFE id or all below one (`spiffe://td/ns/*`). */
  source: v.union(
    [name({ wildcard: true }), spiffePattern()],
    'must be a service name, "*", or a SPIFFE id with or without "/*" at its end',
  ),
  namespace: v.optional(name({ wildcard: true }), "default"),
  partition: v.optional(name({ wildcard: true }), "default"),
  action: v.picklist(["allow", "deny"], 'must be "allow" or "deny"'),
});

const Config = object({
  service: name(),
  /** Of services that intentions and upstreams name; needed where any is named. */
  trustDomain: v.optional(v.pipe(
    v.string("must be a text"),
    v.check((domain) => parseTrustDomain(domain) !== undefined, "is not a trust domain"),
    v.transform((domain) => domain.toLowerCase()),
  )),
  datacenter: v.optional(name(), "dc1"),
  /** Of everything without `tls` of its own; read by `file_credentials.ts`. */
  credentials: v.optional(v.unknown()),
  /** SDS servers by name. */
  sds: v.optional(v.unknown()),
  inbound: v.optional(object({
    bind: address({ unix: false, emptyHost: "0.0.0.0" }),
    local: address({ unix: true }),
    localConnectTimeout: v.optional(duration(1), "5s"),
    handshakeTimeout: v.optional(duration(1), "10s"),
    maxConnections: v.optional(count(0, 4_294_967_295), 0),
    tls: v.optional(v.unknown()),
  })),
  upstreams: v.optional(
    v.pipe(v.array(Upstream), v.maxLength(10_000, "has more than 10000 entries")),
    [],
  ),
  intentions: v.optional(
    v.pipe(v.array(Intention), v.maxLength(100_000, "has more than 100000 entries")),
    [],
  ),
  defaultAction: v.optional(
    v.picklist(["allow", "deny"], 'must be "allow" or "deny"'),
    "deny",
  ),
  tls: v.optional(
    object({
      incoming: v.optional(TlsDirection, {}),
      outgoing: v.optional(TlsDirection, {}),
      strictSpiffeChain: v.optional(v.boolean("must be true or false")),
    }),
    {},
  ),
});

/** As the schema gives it, credentials still to be read. */
export type FileConfigOutput = v.InferOutput<typeof Config>;

export interface FileConfig extends Omit<FileConfigOutput, "credentials" | "sds"> {
  readonly credentials: FileCredentials;
}
export type FileUpstream = FileConfig["upstreams"][number];

/** One problem and where it is. */
export interface ConfigProblem {
  /** `upstreams[0].bind`, `""`: the whole. */
  readonly path: string;
  readonly message: string;
  readonly place: Place;
}

export type ParsedConfig =
  | { readonly kind: "valid"; readonly config: FileConfig }
  | { readonly kind: "invalid"; readonly problems: readonly ConfigProblem[] };

/** Longest file that is read. */
export const CONFIG_LIMIT_BYTES = 4 * 1024 * 1024;

/** Nobody reads more at once, and each is looked for in the text. */
const PROBLEMS_LIMIT = 100;

/** Reads the text of a configuration file; never throws. */
export function parseFileConfig(
  source: string,
  options: Omit<FileCredentialsOptions, "service">,
): ParsedConfig {
  // An editor's byte order mark says nothing in UTF-8.
  const json = readJson(source.replace(/^\ufeff/, ""));
  if (json.kind === "invalid") {
    const { reason, place } = json;
    return { kind: "invalid", problems: [{ path: "", message: `is not JSON: ${reason}`, place }] };
  }
  const found: Problem[] = [];
  for (const { path } of json.duplicates) found.push({ path, message: "is given twice" });
  // To the schema a list is an object without any of its keys.
  const value = Array.isArray(json.value) ? undefined : json.value;
  const result = v.safeParse(Config, value, { abortPipeEarly: true });
  if (result.success) {
    const { output } = result;
    found.push(...contradictions(output));
    const { service } = output;
    const credentials = fileCredentials(output, found, { ...options, service });
    if (found.length === 0) return { kind: "valid", config: { ...output, credentials } };
  } else found.push(...result.issues.map(problemOf));
  const problems = found.slice(0, PROBLEMS_LIMIT).map(({ path, message }) => ({
    path: formatPath(path),
    message,
    place: json.placeOf(path),
  }));
  const more = found.length - problems.length;
  if (more > 0) {
    problems.push({ path: "", message: `has ${more} more problems`, place: json.placeOf([]) });
  }
  return { kind: "invalid", problems };
}

/** `line 3, column 5: upstreams[0].bind must be ...`, one per problem. */
export function formatProblem({ path, message, place }: ConfigProblem): string {
  return `line ${place.line}, column ${place.column}: ${path || "the file"} ${message}`;
}
