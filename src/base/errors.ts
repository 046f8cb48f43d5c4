/**
 * The one table of failures: origin, log level, response. Everything that fails in Postern throws a
 * {@link ProxyError} with a code from here; callers match on `code`, never on `message`.
 *
 * @module
 */

/** The side that ended or broke a connection. */
export type Origin = "downstream" | "upstream" | "proxy" | "agent" | "user";

/**
 * A failure of traffic that the mesh allows is a warning; a decision of a rule, or a failure that a caller
 * alone causes, is not. Metrics count each.
 */
export type Severity = "debug" | "info" | "warn";

/** Envoy's `%RESPONSE_FLAGS%`; `""`: `-`. */
export type ResponseFlag =
  | ""
  | "DC"
  | "DPE"
  | "DT"
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

interface ErrorFacts {
  readonly origin: Origin;
  readonly severity: Severity;
  /** Envoy's flag of a connection that ended with the code. */
  readonly flag: ResponseFlag;
  /** `null`: no request should end with the code, and gets {@link INTERNAL}. */
  readonly reply: Reply | null;
}

/** No response had begun when the upstream failed; `reason` as Envoy words it. */
function broken(flag: ResponseFlag, reason: string, status = 503): Reply {
  return {
    status,
    text: `upstream connect error or disconnect/reset before headers. reset reason: ${reason}`,
    flag,
    details: `upstream_reset_before_response_started{${reason.replaceAll(" ", "_")}}`,
  };
}

const CONNECTION_FAILURE = broken("UF", "remote connection failure");
const CONNECTION_TIMEOUT = broken("UF", "connection timeout");
const DENIED: Reply = {
  status: 403,
  text: "RBAC: access denied",
  flag: "",
  details: "rbac_access_denied_matched_policy[none]",
};
const INTERNAL: Reply = { status: 500, text: "internal error", flag: "", details: "internal" };

const FACTS = {
  // Downstream side of a connection.
  overloaded: {
    origin: "proxy",
    severity: "warn",
    flag: "OM",
    reply: { status: 503, text: "overloaded", flag: "OM", details: "overload" },
  },
  handshake_failed: { origin: "downstream", severity: "info", flag: "", reply: null },
  // The agent's own TCP check connects and leaves every ten seconds.
  closed_early: { origin: "downstream", severity: "debug", flag: "", reply: null },
  handshake_timed_out: { origin: "downstream", severity: "info", flag: "", reply: null },
  // The oldest of too many handshakes at once.
  handshake_crowded_out: { origin: "downstream", severity: "info", flag: "", reply: null },
  identity_invalid: { origin: "downstream", severity: "warn", flag: "", reply: null },
  chain_untrusted: { origin: "downstream", severity: "warn", flag: "", reply: null },
  intention_denied: { origin: "proxy", severity: "info", flag: "", reply: DENIED },
  // The listener is not for callers from that address.
  source_denied: { origin: "proxy", severity: "info", flag: "", reply: DENIED },
  authorize_failed: { origin: "agent", severity: "warn", flag: "", reply: DENIED },
  not_ready: {
    origin: "proxy",
    severity: "warn",
    flag: "",
    reply: { status: 503, text: "not ready", flag: "", details: "not_ready" },
  },
  // Requests.
  request_invalid: {
    origin: "downstream",
    severity: "info",
    flag: "",
    reply: { status: 400, text: "", flag: "", details: "path_normalization_failed" },
  },
  request_too_large: {
    origin: "downstream",
    severity: "info",
    flag: "",
    reply: {
      status: 413,
      text: "Payload Too Large",
      flag: "",
      details: "request_payload_too_large",
    },
  },
  downstream_flooded: { origin: "downstream", severity: "info", flag: "", reply: null },
  request_timed_out: {
    origin: "downstream",
    severity: "info",
    flag: "",
    reply: { status: 408, text: "request timeout", flag: "", details: "request_overall_timeout" },
  },
  // Routing.
  route_not_found: {
    origin: "proxy",
    severity: "info",
    flag: "",
    reply: { status: 404, text: "", flag: "NR", details: "route_not_found" },
  },
  no_endpoint: {
    origin: "upstream",
    severity: "warn",
    flag: "UH",
    reply: { status: 503, text: "no healthy upstream", flag: "UH", details: "no_healthy_upstream" },
  },
  limit_reached: {
    origin: "proxy",
    severity: "warn",
    flag: "UO",
    reply: { ...broken("UO", "overflow"), says: "x-envoy-overloaded" },
  },
  // Dialling.
  endpoint_refused: { origin: "upstream", severity: "warn", flag: "UF", reply: CONNECTION_FAILURE },
  endpoint_untrusted: {
    origin: "upstream",
    severity: "warn",
    flag: "UF",
    reply: CONNECTION_FAILURE,
  },
  endpoint_timed_out: {
    origin: "upstream",
    severity: "warn",
    flag: "UF",
    reply: CONNECTION_TIMEOUT,
  },
  local_refused: { origin: "upstream", severity: "warn", flag: "UF", reply: CONNECTION_FAILURE },
  local_timed_out: { origin: "upstream", severity: "warn", flag: "UF", reply: CONNECTION_TIMEOUT },
  // Relaying.
  downstream_reset: { origin: "downstream", severity: "info", flag: "DC", reply: null },
  endpoint_reset: {
    origin: "upstream",
    severity: "warn",
    flag: "UC",
    reply: broken("UC", "connection termination"),
  },
  // Ended at once and without a byte, though the handshake was done on our side (TLS 1.3).
  refused_by_peer: { origin: "upstream", severity: "warn", flag: "UC", reply: CONNECTION_FAILURE },
  response_invalid: {
    origin: "upstream",
    severity: "warn",
    flag: "",
    reply: broken("UPE", "protocol error", 502),
  },
  response_reset: {
    origin: "upstream",
    severity: "warn",
    flag: "",
    reply: broken("UR", "remote reset"),
  },
  response_timed_out: {
    origin: "upstream",
    severity: "warn",
    flag: "",
    reply: {
      status: 504,
      text: "upstream request timeout",
      flag: "UT",
      details: "upstream_response_timeout",
    },
  },
  idle_timed_out: {
    origin: "proxy",
    severity: "info",
    flag: "",
    reply: { status: 408, text: "stream timeout", flag: "SI", details: "stream_idle_timeout" },
  },
  lifetime_ended: { origin: "proxy", severity: "info", flag: "DT", reply: null },
  drained: { origin: "proxy", severity: "info", flag: "", reply: null },
  closed: { origin: "proxy", severity: "info", flag: "", reply: null },
  // Plugins.
  plugin_denied: { origin: "proxy", severity: "info", flag: "", reply: DENIED },
  rate_limited: {
    origin: "proxy",
    severity: "info",
    flag: "",
    reply: {
      status: 429,
      text: "local_rate_limited",
      flag: "RL",
      details: "local_rate_limited",
      says: "x-envoy-ratelimited",
    },
  },
  unauthenticated: {
    origin: "downstream",
    severity: "info",
    flag: "",
    reply: { status: 401, text: "", flag: "", details: "jwt_authn_access_denied" },
  },
  plugin_failed: { origin: "proxy", severity: "warn", flag: "", reply: null },
  // Control: the agent, credentials, snapshots.
  agent_unreachable: { origin: "agent", severity: "info", flag: "", reply: null },
  agent_forbidden: { origin: "agent", severity: "info", flag: "", reply: null },
  agent_not_found: { origin: "agent", severity: "info", flag: "", reply: null },
  agent_overloaded: { origin: "agent", severity: "info", flag: "", reply: null },
  agent_failed: { origin: "agent", severity: "info", flag: "", reply: null },
  agent_reply_invalid: { origin: "agent", severity: "info", flag: "", reply: null },
  // The Consul that answers now has another trust domain.
  cluster_changed: { origin: "agent", severity: "info", flag: "", reply: null },
  credentials_invalid: { origin: "agent", severity: "info", flag: "", reply: null },
  snapshot_invalid: { origin: "agent", severity: "info", flag: "", reply: null },
  // Starting.
  usage: { origin: "user", severity: "info", flag: "", reply: null },
  config_invalid: { origin: "user", severity: "info", flag: "", reply: null },
  unsupported: { origin: "user", severity: "info", flag: "", reply: null },
  listen_failed: { origin: "proxy", severity: "info", flag: "", reply: null },
  internal: { origin: "proxy", severity: "warn", flag: "", reply: null },
} as const satisfies Record<string, ErrorFacts>;

/** A failure's stable name: logged, counted and matched on. */
export type ErrorCode = keyof typeof FACTS;

/** Every code, for metrics that must exist before the first failure. */
export const ERROR_CODES: readonly ErrorCode[] = Object.keys(FACTS) as ErrorCode[];

export function originOf(code: ErrorCode): Origin {
  return FACTS[code].origin;
}

export function severityOf(code: ErrorCode): Severity {
  return FACTS[code].severity;
}

/** Envoy's flag of a connection that ended with the code. */
export function connectionFlagOf(code: ErrorCode): ResponseFlag {
  return FACTS[code].flag;
}

/** The response to a request that ended with the code; only for `unauthenticated` it contains `reason`. */
export function replyOf(code: ErrorCode, reason = ""): Reply {
  const reply: Reply = FACTS[code].reply ?? INTERNAL;
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
