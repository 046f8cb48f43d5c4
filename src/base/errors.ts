/** The table of failures, all thrown as {@link ProxyError}. Match on `code`, never `message`. @module */

/** The side that ended or broke a connection. */
export type Origin = "downstream" | "upstream" | "proxy" | "agent" | "user";

/** Failed traffic that the mesh allows is a warning; a rule's decision, a caller's fault is not. */
export type Severity = "debug" | "info" | "warn";

/** Envoy's `%RESPONSE_FLAGS%`; `""`: `-`. */
export type ResponseFlag =
  | ""
  | "DC"
  | "DPE"
  | "DT"
  | "NC"
  | "NR"
  | "OM"
  | "RL"
  | "SI"
  | "UC"
  | "UF"
  | "UH"
  | "UO"
  | "UPE"
  | "UR"
  | "UT";

/** The response of a failed request; statuses, texts and details are Envoy's. */
export interface Reply {
  readonly status: number;
  /** The body as text, and the message of a gRPC status. */
  readonly text: string;
  readonly flag: ResponseFlag;
  /** Envoy's `%RESPONSE_CODE_DETAILS%`. */
  readonly details: string;
  /** Header set to `true`: a limit of ours refused, and a retry would make it worse. */
  readonly says?: "x-envoy-overloaded" | "x-envoy-ratelimited";
}

/** No response had begun when the upstream failed; `reason` as Envoy words it. */
function broken(flag: ResponseFlag, reason: string, status = 503): Reply {
  const text = `upstream connect error or disconnect/reset before headers. reset reason: ${reason}`;
  const details = `upstream_reset_before_response_started{${reason.replaceAll(" ", "_")}}`;
  return { status, text, flag, details };
}

const CONNECTION_FAILURE = broken("UF", "remote connection failure");
const CONNECTION_TIMEOUT = broken("UF", "connection timeout");
const OVERFLOW: Reply = { ...broken("UO", "overflow"), says: "x-envoy-overloaded" };
const DENIED = plain(403, "rbac_access_denied_matched_policy[none]", "RBAC: access denied");
const INTERNAL = plain(500, "internal", "internal error");
const NO_ENDPOINT = plain(503, "no_healthy_upstream", "no healthy upstream", "UH");
const TOO_LARGE = plain(413, "request_payload_too_large", "Payload Too Large");
const REQUEST_LATE = plain(408, "request_overall_timeout", "request timeout");
const RESPONSE_LATE = plain(504, "upstream_response_timeout", "upstream request timeout", "UT");
const STREAM_IDLE = plain(408, "stream_idle_timeout", "stream timeout", "SI");
const RATE_LIMITED = plain(429, "local_rate_limited", "local_rate_limited", "RL");

function plain(status: number, details: string, text = "", flag: ResponseFlag = ""): Reply {
  return { status, text, flag, details };
}

/** `flag`: Envoy's, of a connection. A request without `reply` gets {@link INTERNAL}. */
type ErrorFacts = readonly [origin: Origin, severity: Severity, flag?: ResponseFlag, reply?: Reply];

const FACTS = {
  // Downstream side of a connection.
  overloaded: ["proxy", "warn", "OM", plain(503, "overload", "overloaded", "OM")],
  handshake_failed: ["downstream", "info"],
  // The agent's own TCP check connects and leaves every ten seconds.
  closed_early: ["downstream", "debug"],
  handshake_timed_out: ["downstream", "info"],
  // The oldest of too many handshakes at once.
  handshake_crowded_out: ["downstream", "info"],
  identity_invalid: ["downstream", "warn"],
  chain_untrusted: ["downstream", "warn"],
  intention_denied: ["proxy", "info", "", DENIED],
  // The listener is not for callers from that address.
  source_denied: ["proxy", "info", "", DENIED],
  authorize_failed: ["agent", "warn", "", DENIED],
  not_ready: ["proxy", "warn", "", plain(503, "not_ready", "not ready")],
  // Requests.
  request_invalid: ["downstream", "info", "", plain(400, "path_normalization_failed")],
  request_too_large: ["downstream", "info", "", TOO_LARGE],
  downstream_flooded: ["downstream", "info"],
  request_timed_out: ["downstream", "info", "", REQUEST_LATE],
  // Routing.
  route_not_found: ["proxy", "info", "", plain(404, "route_not_found", "", "NR")],
  // As Envoy answers where a header names a cluster that does not exist.
  target_not_found: ["proxy", "warn", "", plain(503, "cluster_not_found", "", "NC")],
  no_endpoint: ["upstream", "warn", "UH", NO_ENDPOINT],
  limit_reached: ["proxy", "warn", "UO", OVERFLOW],
  // Dialling.
  endpoint_refused: ["upstream", "warn", "UF", CONNECTION_FAILURE],
  endpoint_untrusted: ["upstream", "warn", "UF", CONNECTION_FAILURE],
  endpoint_timed_out: ["upstream", "warn", "UF", CONNECTION_TIMEOUT],
  local_refused: ["upstream", "warn", "UF", CONNECTION_FAILURE],
  local_timed_out: ["upstream", "warn", "UF", CONNECTION_TIMEOUT],
  // Relaying.
  downstream_reset: ["downstream", "info", "DC"],
  endpoint_reset: ["upstream", "warn", "UC", broken("UC", "connection termination")],
  // Ended at once and without a byte, though the handshake was done on our side (TLS 1.3).
  refused_by_peer: ["upstream", "warn", "UC", CONNECTION_FAILURE],
  response_invalid: ["upstream", "warn", "", broken("UPE", "protocol error", 502)],
  response_reset: ["upstream", "warn", "", broken("UR", "remote reset")],
  response_timed_out: ["upstream", "warn", "", RESPONSE_LATE],
  idle_timed_out: ["proxy", "info", "", STREAM_IDLE],
  lifetime_ended: ["proxy", "info", "DT"],
  drained: ["proxy", "info"],
  closed: ["proxy", "info"],
  // Plugins.
  plugin_denied: ["proxy", "info", "", DENIED],
  rate_limited: ["proxy", "info", "", { ...RATE_LIMITED, says: "x-envoy-ratelimited" }],
  unauthenticated: ["downstream", "info", "", plain(401, "jwt_authn_access_denied")],
  plugin_failed: ["proxy", "warn"],
  // Control: the agent, credentials, snapshots.
  agent_unreachable: ["agent", "info"],
  agent_forbidden: ["agent", "info"],
  agent_not_found: ["agent", "info"],
  agent_overloaded: ["agent", "info"],
  agent_failed: ["agent", "info"],
  agent_reply_invalid: ["agent", "info"],
  // The Consul that answers now has another trust domain.
  cluster_changed: ["agent", "info"],
  credentials_invalid: ["agent", "info"],
  snapshot_invalid: ["agent", "info"],
  // Starting.
  usage: ["user", "info"],
  config_invalid: ["user", "info"],
  unsupported: ["user", "info"],
  listen_failed: ["proxy", "info"],
  internal: ["proxy", "warn"],
} as const satisfies Record<string, ErrorFacts>;

/** A failure's stable name: logged, counted and matched on. */
export type ErrorCode = keyof typeof FACTS;

/** Every code, for metrics that must exist before the first failure. */
export const ERROR_CODES: readonly ErrorCode[] = Object.keys(FACTS) as ErrorCode[];

export function originOf(code: ErrorCode): Origin {
  return FACTS[code][0];
}

export function severityOf(code: ErrorCode): Severity {
  return FACTS[code][1];
}

export function connectionFlagOf(code: ErrorCode): ResponseFlag {
  const facts: ErrorFacts = FACTS[code];
  return facts[2] ?? "";
}

/** The response to a request that ended with the code; only for `unauthenticated` it contains `reason`. */
export function replyOf(code: ErrorCode, reason = ""): Reply {
  const facts: ErrorFacts = FACTS[code];
  const reply = facts[3] ?? INTERNAL;
  if (code !== "unauthenticated") return reply;
  const details = `${reply.details}{${reason.replaceAll(" ", "_")}}`;
  return { ...reply, text: reason, details };
}

/** A failure with a code from the table. `message` says what could not be done, then the fact. */
export class ProxyError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = "ProxyError";
    this.code = code;
  }
}

/** The message of anything thrown, without a stack. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
