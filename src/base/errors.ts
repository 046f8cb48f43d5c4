/**
 * The one table of failures: who is to blame, at which stage, and the exit code where a failure ends
 * the process. Everything that fails in Postern throws a {@link ProxyError} with a code from here;
 * callers match on `code`, never on `message`.
 *
 * @module
 */

/** Who ended or spoiled a connection. */
export type Origin = "downstream" | "upstream" | "proxy" | "agent" | "user";

/** Where on the way of a connection it happened; the order is that of the data flow. */
export type Stage =
  | "accept"
  | "handshake"
  | "identity"
  | "authorize"
  | "target"
  | "endpoint"
  | "dial"
  | "relay"
  | "control"
  | "startup";

interface Facts {
  readonly origin: Origin;
  readonly stage: Stage;
  /** A later endpoint may be tried: nothing was sent to this one. */
  readonly retry: "never" | "always";
}

const FACTS = {
  // Downstream side of a connection.
  overloaded: { origin: "proxy", stage: "accept", retry: "never" },
  handshake_failed: { origin: "downstream", stage: "handshake", retry: "never" },
  // Connected and left, as the agent's own TCP check does every ten seconds.
  closed_early: { origin: "downstream", stage: "handshake", retry: "never" },
  handshake_timed_out: { origin: "downstream", stage: "handshake", retry: "never" },
  // The oldest of too many that were under way at once.
  handshake_crowded_out: { origin: "downstream", stage: "handshake", retry: "never" },
  identity_invalid: { origin: "downstream", stage: "identity", retry: "never" },
  chain_untrusted: { origin: "downstream", stage: "identity", retry: "never" },
  intention_denied: { origin: "proxy", stage: "authorize", retry: "never" },
  authorize_failed: { origin: "agent", stage: "authorize", retry: "never" },
  not_ready: { origin: "proxy", stage: "authorize", retry: "never" },
  // Choosing where to go.
  target_unknown: { origin: "proxy", stage: "target", retry: "never" },
  no_endpoint: { origin: "upstream", stage: "endpoint", retry: "never" },
  limit_reached: { origin: "proxy", stage: "endpoint", retry: "never" },
  // Dialling.
  endpoint_refused: { origin: "upstream", stage: "dial", retry: "always" },
  endpoint_untrusted: { origin: "upstream", stage: "dial", retry: "always" },
  endpoint_timed_out: { origin: "upstream", stage: "dial", retry: "always" },
  local_refused: { origin: "upstream", stage: "dial", retry: "never" },
  local_timed_out: { origin: "upstream", stage: "dial", retry: "never" },
  // Relaying.
  downstream_reset: { origin: "downstream", stage: "relay", retry: "never" },
  endpoint_reset: { origin: "upstream", stage: "relay", retry: "never" },
  // Ended at once and without a word, though the handshake was done on our side.
  refused_by_peer: { origin: "upstream", stage: "relay", retry: "never" },
  idle_timed_out: { origin: "proxy", stage: "relay", retry: "never" },
  lifetime_ended: { origin: "proxy", stage: "relay", retry: "never" },
  drained: { origin: "proxy", stage: "relay", retry: "never" },
  closed: { origin: "proxy", stage: "relay", retry: "never" },
  // Control: the agent, credentials, snapshots.
  agent_unreachable: { origin: "agent", stage: "control", retry: "always" },
  agent_forbidden: { origin: "agent", stage: "control", retry: "always" },
  agent_not_found: { origin: "agent", stage: "control", retry: "always" },
  agent_overloaded: { origin: "agent", stage: "control", retry: "always" },
  agent_failed: { origin: "agent", stage: "control", retry: "always" },
  agent_reply_invalid: { origin: "agent", stage: "control", retry: "always" },
  credentials_invalid: { origin: "agent", stage: "control", retry: "always" },
  snapshot_invalid: { origin: "agent", stage: "control", retry: "always" },
  // Starting.
  usage: { origin: "user", stage: "startup", retry: "never" },
  config_invalid: { origin: "user", stage: "startup", retry: "never" },
  unsupported: { origin: "user", stage: "startup", retry: "never" },
  listen_failed: { origin: "proxy", stage: "startup", retry: "never" },
  internal: { origin: "proxy", stage: "control", retry: "never" },
} as const satisfies Record<string, Facts>;

/** A failure's stable name: logged, counted and matched on. */
export type ErrorCode = keyof typeof FACTS;

/** Every code, for metrics that must exist before the first failure. */
export const ERROR_CODES: readonly ErrorCode[] = Object.keys(FACTS) as ErrorCode[];

/** Blame, stage and retry rule of a code. */
export function factsOf(code: ErrorCode): Facts {
  return FACTS[code];
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
