/**
 * Limits that a codec sets on its peer. The numbers are Envoy's defaults where Envoy has one
 * (`docs/limits.md`).
 *
 * @module
 */

export interface HttpLimits {
  /** Bytes of the head of a request or response, first line included; also the limit for trailers. */
  readonly headBytes: number;
  /** Fields of a head. */
  readonly fields: number;
  /** Bytes of one exchange that wait for a slower side; a sender that exceeds it is paused. */
  readonly bufferedBytes: number;
  /** Streams open at once on one HTTP/2 connection to our server. */
  readonly concurrentStreams: number;
  /** HTTP/2 flow control: the initial windows that we give a peer for one stream and for a connection. */
  readonly streamWindowBytes: number;
  readonly connectionWindowBytes: number;
}

export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  headBytes: 60 * 1024,
  fields: 100,
  bufferedBytes: 256 * 1024,
  concurrentStreams: 1024,
  streamWindowBytes: 64 * 1024,
  connectionWindowBytes: 1024 * 1024,
};
