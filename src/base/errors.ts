/**
 * The one table of failures, and who is to blame for each. Everything that fails in Postern throws a
 * {@link ProxyError} with a code from here; callers match on `code`, never on `message`.
 *
 * @module
 */

/** Who ended or spoiled a connection. */
export type Origin = "downstream" | "upstream" | "proxy" | "agent" | "user";

const ORIGINS = {
  // Downstream side of a connection.
  overloaded: "proxy",
  handshake_failed: "downstream",
  // Connected and left, as the agent's own TCP check does every ten seconds.
  closed_early: "downstream",
  handshake_timed_out: "downstream",
  // The oldest of too many that were under way at once.
  handshake_crowded_out: "downstream",
  identity_invalid: "downstream",
  chain_untrusted: "downstream",
  intention_denied: "proxy",
  // Its address may not call this listener.
  source_denied: "proxy",
  authorize_failed: "agent",
  not_ready: "proxy",
  // Requests.
  request_invalid: "downstream",
  request_too_large: "downstream",
  downstream_flooded: "downstream",
  request_timed_out: "downstream",
  // Choosing where to go.
  route_not_found: "proxy",
  no_endpoint: "upstream",
  limit_reached: "proxy",
  // Dialling.
  endpoint_refused: "upstream",
  endpoint_untrusted: "upstream",
  endpoint_timed_out: "upstream",
  local_refused: "upstream",
  local_timed_out: "upstream",
  // Relaying.
  downstream_reset: "downstream",
  endpoint_reset: "upstream",
  // Ended at once and without a word, though the handshake was done on our side.
  refused_by_peer: "upstream",
  response_invalid: "upstream",
  response_reset: "upstream",
  response_timed_out: "upstream",
  idle_timed_out: "proxy",
  lifetime_ended: "proxy",
  drained: "proxy",
  closed: "proxy",
  // Plugins: what one refused, and one that did what none may do.
  plugin_denied: "proxy",
  rate_limited: "proxy",
  unauthenticated: "downstream",
  plugin_failed: "proxy",
  // Control: the agent, credentials, snapshots.
  agent_unreachable: "agent",
  agent_forbidden: "agent",
  agent_not_found: "agent",
  agent_overloaded: "agent",
  agent_failed: "agent",
  agent_reply_invalid: "agent",
  // Whoever answers now is a Consul of another trust domain.
  cluster_changed: "agent",
  credentials_invalid: "agent",
  snapshot_invalid: "agent",
  // Starting.
  usage: "user",
  config_invalid: "user",
  unsupported: "user",
  listen_failed: "proxy",
  internal: "proxy",
} as const satisfies Record<string, Origin>;

/** A failure's stable name: logged, counted and matched on. */
export type ErrorCode = keyof typeof ORIGINS;

/** Every code, for metrics that must exist before the first failure. */
export const ERROR_CODES: readonly ErrorCode[] = Object.keys(ORIGINS) as ErrorCode[];

/** Who is to blame for what a code says. */
export function originOf(code: ErrorCode): Origin {
  return ORIGINS[code];
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
