/** The record of one exchange, for log and counters; heads are kept by reference. @module */

import type { ErrorCode, Origin, TrafficRow } from "../../base/mod.ts";
import type { Denial } from "../denial.ts";
import type { Fields, RequestHead, ResponseHead } from "../head.ts";
import type { ExchangeTrace } from "../trace_context.ts";

/** Facts that all exchanges of one downstream connection share; read only when a line is written. */
export interface DownstreamFacts {
  /** Unique in this process. */
  readonly id: number;
  /** `10.0.0.7:40312`. */
  readonly remote: string;
  readonly local: string;
  /** SNI of its ClientHello; `""`: none, or no TLS. */
  readonly requestedServerName: string;
  /** `TLSv1.3`; `""`: no TLS. */
  readonly tlsVersion: string;
  /** The certificate that the client presented; `undefined`: none. */
  readonly peer: {
    /** URI name; `""`: none. */
    readonly uri: string;
    /** As Consul writes it. */
    readonly serial: string;
    /** DER of the certificate. */
    readonly leaf: Uint8Array | undefined;
  } | undefined;
  /** URI name of the certificate that we presented; `""`: none. */
  readonly localUri: string;
  /** For observers that count by caller; absent: the exchange is on no connection of a listener. */
  readonly connection?: ExchangeConnection;
}

/** The accepted connection of an exchange, and the listener that accepted it. */
export interface ExchangeConnection {
  readonly direction: "inbound" | "outbound";
  readonly listener: string;
  /** Name of the service behind the listener. */
  readonly destination: string;
  /** Service of the caller. */
  readonly caller: string;
  /** The row that counts it, found once. */
  traffic: TrafficRow | undefined;
}

export const NOT_REACHED = -1;

export class ExchangeRecord {
  readonly downstream: DownstreamFacts;
  /** The request as sent on, with our changes and its normalised path. `undefined`: unreadable. */
  readonly request: RequestHead | undefined;
  /** Path as the client sent it; `""`: the same as `request.path`. */
  originalPath = "";
  /** The response that the downstream got, from the upstream or from us. */
  response: ResponseHead | undefined;
  responseTrailers: Fields | undefined;
  /** Status that the downstream got; 0: none. */
  status = 0;
  /** Set of `FLAG`. */
  flags = 0;
  /**
   * Envoy's `response_code_details`: `via_upstream`, `direct_response`,
   * `upstream_reset_before_response_started{remote_connection_failure}`; `""`: not known.
   */
  details = "";
  /** Bytes of the bodies, from the downstream and to it. */
  receivedBytes = 0;
  sentBytes = 0;

  /** Wall clock at the request's head. */
  readonly startMs: number;
  /** Monotonic, as all marks below: the request's head. */
  readonly startedAt: number;
  /** The last byte of the request came. */
  requestEndAt = NOT_REACHED;
  /** The request's head was first sent upstream, on an established connection. */
  upstreamStartAt = NOT_REACHED;
  /** First byte of the response, of the attempt that counted. */
  upstreamFirstByteAt = NOT_REACHED;
  endAt = NOT_REACHED;

  /** Endpoint tried last, like `10.0.0.9:8080`; `""`: none. */
  upstreamHost = "";
  /** The upstream connection; a `Connection` of `net` is one. */
  upstream: {
    readonly local: string;
    /** The SPIFFE id that the endpoint proved; absent: none, as for the local application. */
    readonly identity?: string;
    /** The service of the identity, `finance/db`; `""`: nothing vouches for it. Absent: no identity. */
    readonly service?: string;
  } | undefined;
  /** Envoy's name: `local_app`, `db.default.dc1.internal.<trust domain>`; `""`: none was chosen. */
  upstreamCluster = "";
  /** The plugin that chose the target; `""`: the chain did. */
  chosenBy = "";
  /** Why the connection was ended, if it did not end by itself; `""`: no reason. */
  connectionDetails = "";
  /** Why no upstream connection was established, in words. */
  upstreamFailure = "";
  /** Endpoints that the request was sent to or tried for. */
  attempts = 0;
  /** Name of the route in the discovery chain; `""`: the default route, or none. */
  route = "";
  /** The intention that decided; `""`: none was evaluated. */
  rule = "";
  /** The side that ended the exchange; `undefined`: it was completed in order. */
  endedBy: Origin | undefined;
  /** Error code of our own table; `undefined`: nothing failed. */
  code: ErrorCode | undefined;
  /** Why the proxy of the upstream refused it; `undefined`: it did not, or does not say. */
  denial: Denial | undefined;
  /** Its span; `undefined`: tracing is off, or the exchange is not sampled. */
  trace: ExchangeTrace | undefined;
  /** Slot of the observer that counts requests by cluster: the cluster that has the request now. */
  counted: { left(): void } | undefined;
  /** The row of the traffic table that has the request now. */
  traffic: TrafficRow | undefined;

  constructor(
    downstream: DownstreamFacts,
    request: RequestHead | undefined,
    start: { readonly wallMs: number; readonly monotonicMs: number },
  ) {
    this.downstream = downstream;
    this.request = request;
    this.startMs = start.wallMs;
    this.startedAt = start.monotonicMs;
  }
}

/** Envoy's long names, in the order of the bits. */
export const FLAG_WORDS = {
  UH: "NoHealthyUpstream",
  UF: "UpstreamConnectionFailure",
  UO: "UpstreamOverflow",
  NR: "NoRouteFound",
  URX: "UpstreamRetryLimitExceeded",
  NC: "NoClusterFound",
  DT: "DurationTimeout",
  DC: "DownstreamConnectionTermination",
  LH: "FailedLocalHealthCheck",
  UT: "UpstreamRequestTimeout",
  LR: "LocalReset",
  UR: "UpstreamRemoteReset",
  UC: "UpstreamConnectionTermination",
  DI: "DelayInjected",
  FI: "FaultInjected",
  RL: "RateLimited",
  UAEX: "UnauthorizedExternalService",
  RLSE: "RateLimitServiceError",
  IH: "InvalidEnvoyRequestHeaders",
  SI: "StreamIdleTimeout",
  DPE: "DownstreamProtocolError",
  UPE: "UpstreamProtocolError",
  UMSDR: "UpstreamMaxStreamDurationReached",
  OM: "OverloadManagerTerminated",
  DF: "DnsResolutionFailed",
  DR: "DownstreamRemoteReset",
} as const;

export type FlagName = keyof typeof FLAG_WORDS;

const NAMES = Object.keys(FLAG_WORDS) as readonly FlagName[];

/** Bits by abbreviation; {@link FLAG_WORDS} has the meaning of each. */
export const FLAG = Object.fromEntries(NAMES.map((name, bit) => [name, 1 << bit])) as Readonly<
  Record<FlagName, number>
>;

/** Few sets occur: the text of each is cached. */
const WORDS = { short: new Map<number, string>(), long: new Map<number, string>() };
const WORDS_LIMIT = 256;

/** `UF,URX`; `""`: none. */
export function flagsText(flags: number, form: "short" | "long" = "short"): string {
  const known = WORDS[form];
  let text = known.get(flags);
  if (text === undefined) {
    text = NAMES.filter((name) => flags & FLAG[name])
      .map((name) => form === "long" ? FLAG_WORDS[name] : name).join(",");
    if (known.size < WORDS_LIMIT) known.set(flags, text);
  }
  return text;
}
