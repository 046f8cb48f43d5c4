/**
 * What one finished exchange leaves for its access log line and its counts. Whoever carries the exchange
 * fills it as it goes; heads are kept by reference, so that a record costs itself and nothing else.
 *
 * @module
 */

import type { ErrorCode, Origin } from "../../base/mod.ts";
import type { Fields, RequestHead, ResponseHead } from "../head.ts";

/** What all exchanges of one downstream connection share; asked only when a line is written. */
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
  /** The certificate that it showed; `undefined`: none. */
  readonly peer: {
    /** URI name; `""`: none. */
    readonly uri: string;
    /** As Consul writes it. */
    readonly serial: string;
    /** DER of the certificate. */
    readonly leaf: Uint8Array | undefined;
  } | undefined;
  /** URI name of the certificate that we showed it; `""`: none. */
  readonly localUri: string;
}

/** Time marks that were not reached. */
export const NOT_REACHED = -1;

export class ExchangeRecord {
  readonly downstream: DownstreamFacts;
  /** As it is sent on, with what we added; its path is the normalised one. `undefined`: none could be read. */
  readonly request: RequestHead | undefined;
  /** As the client sent it; `""`: as in `request.path`. */
  originalPath = "";
  /** As the downstream got it, whoever made it. */
  response: ResponseHead | undefined;
  responseTrailers: Fields | undefined;
  /** What the downstream was told; 0: nothing. */
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
  /** The request's head was first sent upstream, on a connection that stood. */
  upstreamStartAt = NOT_REACHED;
  /** First byte of the response, of the attempt that counted. */
  upstreamFirstByteAt = NOT_REACHED;
  /** Everything is over. */
  endAt = NOT_REACHED;

  /** `10.0.0.9:8080` that was tried last; `""`: none was. */
  upstreamHost = "";
  /** The connection that it was sent on; a `Connection` of `net` is one. */
  upstream: { readonly local: string } | undefined;
  /** Envoy's name: `local_app`, `db.default.dc1.internal.<trust domain>`; `""`: none was chosen. */
  upstreamCluster = "";
  /** Why the connection was ended, where that was not its own end; `""`: there is nothing to say. */
  connectionDetails = "";
  /** Why no connection to it came up, in words. */
  upstreamFailure = "";
  /** Endpoints that the request was sent to or tried for. */
  attempts = 0;
  /** Name of the route in the discovery chain; `""`: it has none. */
  route = "";
  /** The intention that decided; `""`: none was asked. */
  rule = "";
  /** The side that ended it; `undefined`: it was completed in order. */
  endedBy: Origin | undefined;
  /** Error code of our own table; `undefined`: nothing failed. */
  code: ErrorCode | undefined;
  /** Slot of the observer that counts requests by cluster: the cluster that has the request now. */
  counted: { left(): void } | undefined;

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
