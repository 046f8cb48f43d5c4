/** Shapes of request bodies, and decoding as Consul does: any spelling, no unknown key. @module */

import { messageOf, parseDurationMs } from "../base/mod.ts";
import { parseJson } from "../wire/mod.ts";
import { isObject, type JsonObject, type JsonValue } from "./json.ts";
import { HttpRefusal } from "./refusal.ts";

/** Fields and their types; without: text. `any` is kept as it is, `[]`: a list, `{}`: a map. */
const SHAPES = {
  // Registration on the agent.
  registration:
    "Kind ID Name Tags:text[] Meta:text{} Address TaggedAddresses:address{} Port:number " +
    "SocketPath Check:check Checks:check[] Weights:weights Token EnableTagOverride:bool Proxy:proxy " +
    "Locality:locality Namespace Partition Connect:connect",
  connect: "Native:bool SidecarService:registration",
  address: "Address Port:number",
  weights: "Passing:number Warning:number",
  locality: "Region Zone",
  proxy:
    "DestinationServiceName DestinationServiceID LocalServiceAddress LocalServicePort:number " +
    "LocalServiceSocketPath Mode TransparentProxy:transparent_proxy Config:any Upstreams:upstream[] " +
    "MeshGateway:mode Expose:expose AccessLogs:access_logs EnvoyExtensions:any",
  transparent_proxy: "OutboundListenerPort:number DialedDirectly:bool",
  mode: "Mode",
  expose: "Checks:bool Paths:exposed_path[]",
  exposed_path: "ListenerPort:number Path LocalPathPort:number Protocol",
  access_logs: "Enabled:bool DisableListenerLogs:bool Type Path JSONFormat TextFormat",
  upstream: "DestinationType DestinationPartition DestinationNamespace DestinationPeer " +
    "DestinationName Datacenter LocalBindAddress LocalBindPort:number LocalBindSocketPath " +
    "LocalBindSocketMode Config:any MeshGateway:mode",
  check:
    "ID CheckID Name Status Notes Interval:duration Timeout:duration TTL:duration TCP TCPUseTLS:bool HTTP " +
    "Method Body Header:any DisableRedirects:bool TLSServerName TLSSkipVerify:bool UDP GRPC " +
    "GRPCUseTLS:bool H2PING H2PingUseTLS:bool OSService Args:text[] AliasNode AliasService ServiceID " +
    "DockerContainerID Shell OutputMaxSize:number SuccessBeforePassing:number " +
    "FailuresBeforeWarning:number FailuresBeforeCritical:number DeregisterCriticalServiceAfter:duration",
  check_update: "Status Output CheckID Namespace",

  // Config entries, by their kind.
  "service-defaults": "Kind Name Meta:text{} Protocol Mode TransparentProxy:transparent_proxy " +
    "MutualTLSMode MeshGateway:mode Expose:expose ExternalSNI UpstreamConfig:upstream_configs " +
    "Destination:destination_addresses MaxInboundConnections:number LocalConnectTimeoutMs:number " +
    "LocalRequestTimeoutMs:number BalanceInboundConnections MaxRequestHeadersKB:number " +
    "EnvoyExtensions:any",
  upstream_configs: "Overrides:upstream_config[] Defaults:upstream_config",
  upstream_config: "Name Peer Protocol ConnectTimeoutMs:number Limits:limits " +
    "PassiveHealthCheck:passive_health_check MeshGateway:mode BalanceOutboundConnections " +
    "EnvoyListenerJSON EnvoyClusterJSON",
  limits: "MaxConnections:number MaxPendingRequests:number MaxConcurrentRequests:number",
  passive_health_check: "Interval:duration MaxFailures:number EnforcingConsecutive5xx:number " +
    "MaxEjectionPercent:number BaseEjectionTime:duration",
  destination_addresses: "Addresses:text[] Port:number",
  "proxy-defaults": "Kind Name Meta:text{} Config:any Mode TransparentProxy:transparent_proxy " +
    "MutualTLSMode MeshGateway:mode Expose:expose AccessLogs:access_logs EnvoyExtensions:any",
  mesh:
    "Kind Meta:text{} TransparentProxy:mesh_destinations AllowEnablingPermissiveMutualTLS:bool " +
    "ValidateClusters:bool TLS:mesh_tls HTTP:mesh_http Peering:mesh_peering",
  mesh_destinations: "MeshDestinationsOnly:bool",
  mesh_tls: "Incoming:tls_direction Outgoing:tls_direction",
  tls_direction: "TLSMinVersion TLSMaxVersion CipherSuites:text[]",
  mesh_http: "SanitizeXForwardedClientCert:bool Incoming:mesh_incoming",
  mesh_incoming: "RequestNormalization:normalization",
  normalization: "InsecureDisablePathNormalization:bool MergeSlashes:bool " +
    "PathWithEscapedSlashesAction HeadersWithUnderscoresAction",
  mesh_peering: "PeerThroughMeshGateways:bool",
  "service-resolver": "Kind Name Meta:text{} DefaultSubset Subsets:subset{} Redirect:redirect " +
    "Failover:failover{} ConnectTimeout:duration RequestTimeout:duration LoadBalancer:load_balancer",
  subset: "Filter OnlyPassing:bool",
  redirect: "Service ServiceSubset Datacenter Peer",
  failover: "Service ServiceSubset Datacenters:text[] Targets:redirect[]",
  load_balancer: "Policy RingHashConfig:ring_hash LeastRequestConfig:least_request " +
    "HashPolicies:hash_policy[]",
  ring_hash: "MinimumRingSize:number MaximumRingSize:number",
  least_request: "ChoiceCount:number",
  hash_policy: "Field FieldValue CookieConfig:hash_cookie SourceIP:bool Terminal:bool",
  hash_cookie: "Session:bool TTL:duration Path",
  "service-splitter": "Kind Name Meta:text{} Splits:split[]",
  split: "Weight:number Service ServiceSubset RequestHeaders:header_changes " +
    "ResponseHeaders:header_changes",
  header_changes: "Add:text{} Set:text{} Remove:text[]",
  "service-router": "Kind Name Meta:text{} Routes:route[]",
  route: "Match:route_match Destination:route_destination",
  route_match: "HTTP:route_http",
  route_http: "PathExact PathPrefix PathRegex CaseInsensitive:bool Header:header_match[] " +
    "QueryParam:query_match[] Methods:text[]",
  header_match: "Name Present:bool Exact Prefix Suffix Contains Regex IgnoreCase:bool Invert:bool",
  query_match: "Name Present:bool Exact Regex",
  route_destination:
    "Service ServiceSubset PrefixRewrite RequestTimeout:duration IdleTimeout:duration " +
    "NumRetries:number RetryOnConnectFailure:bool RetryOn:text[] RetryOnStatusCodes:number[] " +
    "RequestHeaders:header_changes ResponseHeaders:header_changes",
  "service-intentions": "Kind Name Meta:text{} JWT:jwt Sources:source[]",
  source: "Name Action Permissions:permission[] Precedence:number Type Description Peer",
  permission: "Action HTTP:permission_http JWT:jwt",
  permission_http: "PathExact PathPrefix PathRegex Header:header_match[] Methods:text[]",
  jwt: "Providers:jwt_demand[]",
  jwt_demand: "Name VerifyClaims:jwt_claim[]",
  jwt_claim: "Path:text[] Value",
  "jwt-provider": "Kind Name Meta:text{} JSONWebKeySet:key_set Issuer Audiences:text[] " +
    "Locations:jwt_location[] Forwarding:jwt_forwarding ClockSkewSeconds:number CacheConfig:jwt_cache",
  key_set: "Local:local_keys Remote:remote_keys",
  local_keys: "JWKS Filename",
  remote_keys:
    "URI RequestTimeoutMs:number CacheDuration:duration FetchAsynchronously:bool UseSNI:bool " +
    "RetryPolicy:key_retries JWKSCluster:key_cluster",
  key_retries: "NumRetries:number RetryPolicyBackOff:key_back_off",
  key_back_off: "BaseInterval:duration MaxInterval:duration",
  key_cluster: "DiscoveryType TLSCertificates:any ConnectTimeout:duration",
  jwt_location: "Header:jwt_header QueryParam:named Cookie:named",
  jwt_header: "Name ValuePrefix Forward:bool",
  named: "Name",
  jwt_forwarding: "HeaderName PadForwardPayloadHeader:bool",
  jwt_cache: "Size:number",

  // Other bodies.
  intention:
    "ID Description SourceNS SourceName SourcePeer DestinationNS DestinationName SourceType " +
    "Action Permissions:permission[] Meta:text{} Precedence:number CreatedAt UpdatedAt " +
    "CreateIndex:number ModifyIndex:number",
  chain_overrides: "OverrideProtocol OverrideConnectTimeout:duration OverrideMeshGateway:mode",
  query: "ID Name Session Token Template:any Service:query_service DNS:query_dns",
  query_service: "Service SamenessGroup Peer Failover:query_failover OnlyPassing:bool " +
    "IgnoreCheckIDs:text[] Near Tags:text[] NodeMeta:text{} ServiceMeta:text{} Connect:bool",
  query_failover: "NearestN:number Datacenters:text[] Targets:redirect[]",
  query_dns: "TTL",
  ca_configuration: "Provider Config:any State:any ForceWithoutCrossSigning:bool " +
    "CreateIndex:number ModifyIndex:number",
  authorization: "Target ClientCertURI ClientCertSerial Namespace Partition",
};

const SIMPLE: Readonly<Record<string, (value: JsonValue) => boolean>> = {
  text: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  bool: (value) => typeof value === "boolean",
  // A Go text, or a number of nanoseconds.
  duration: (value) =>
    typeof value === "number" ||
    typeof value === "string" && (value === "" || parseDurationMs(value) !== undefined),
};

interface Field {
  readonly name: string;
  readonly type: string;
}

/** Fields by shape, then by key without underscores in lower case. */
const FIELDS = new Map(
  Object.entries(SHAPES).map(([shape, words]) => {
    const fields = words.split(" ").map((word): [string, Field] => {
      const [name = "", type = "text"] = word.split(":");
      return [plain(name), { name, type }];
    });
    return [shape, new Map(fields)] as const;
  }),
);

/** Parses and decodes the body of a request. Throws a 400 {@link HttpRefusal} that says what is wrong. */
export function decodeBody(text: string, shape: keyof typeof SHAPES): JsonObject {
  return decodeAs(parseBody(text), shape);
}

/** Parses the body of a request, which is to be an object. */
export function parseBody(text: string): JsonObject {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (error) {
    throw unreadable(text.trim() === "" ? "it is empty" : `it is no JSON: ${messageOf(error)}`);
  }
  if (!isObject(value)) throw unreadable("it must be an object");
  return value;
}

export function decodeAs(body: JsonObject, shape: string): JsonObject {
  return decodeObject(body, shape, "");
}

function decodeObject(value: JsonValue, shape: string, at: string): JsonObject {
  if (!isObject(value)) throw unreadable(`${at} must be an object`);
  const fields = FIELDS.get(shape);
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      const field = fields?.get(plain(key));
      const path = at === "" ? key : `${at}.${key}`;
      if (!field) throw unreadable(`${path} is no field of ${shape.replaceAll("_", " ")}`);
      return [field.name, decode(item, field.type, path)];
    }),
  );
}

function decode(value: JsonValue, type: string, at: string): JsonValue {
  if (value === null || type === "any") return value;
  const of = type.slice(0, -2);
  if (type.endsWith("[]")) {
    if (!Array.isArray(value)) throw unreadable(`${at} must be a list`);
    return (value as readonly JsonValue[]).map((item, index) =>
      decode(item, of, `${at}[${index}]`)
    );
  }
  if (type.endsWith("{}")) {
    if (!isObject(value)) throw unreadable(`${at} must be an object`);
    const entries = Object.entries(value);
    return Object.fromEntries(
      entries.map(([key, item]) => [key, decode(item, of, `${at}.${key}`)]),
    );
  }
  const fits = SIMPLE[type];
  if (!fits) return decodeObject(value, type, at);
  if (!fits(value)) throw unreadable(`${at} must be a ${type}`);
  return value;
}

function plain(key: string): string {
  return key.replaceAll("_", "").toLowerCase();
}

function unreadable(fact: string): HttpRefusal {
  return new HttpRefusal(400, `Cannot read the request body: ${fact}`);
}
