/**
 * What a peer may ask of a codec. The numbers are Envoy's defaults where it has some (`docs/limits.md`).
 *
 * @module
 */

export interface HttpLimits {
  /** Bytes of a request's or response's head, its first line included; also of trailers. */
  readonly headBytes: number;
  /** Fields of a head. */
  readonly fields: number;
  /** Bytes that wait for a slower side, of one exchange; what sends more is paused. */
  readonly bufferedBytes: number;
  /** Streams open at once on one HTTP/2 connection that we serve. */
  readonly concurrentStreams: number;
  /** HTTP/2 flow control: what a peer may send on one stream, and on a connection, before we say more. */
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
