/**
 * A request that is against the protocol, in its head or later on: what its line in the access log says,
 * whoever has it. Flag and details are Envoy's, so that whoever counts them goes on counting.
 *
 * @module
 */

import { type ExchangeRecord, FLAG, type HttpVersion } from "../../http/mod.ts";

/** `status`: what its client was told; 0: nothing. */
export interface InvalidRequest {
  readonly version: HttpVersion;
  readonly status: number;
  readonly detail: string;
}

const TOO_LARGE = 431;

/** Nothing else is noted of it but when it is over. */
export function noteInvalid(
  story: ExchangeRecord,
  { version, status, detail }: InvalidRequest,
): void {
  const isHttp2 = version === "HTTP/2";
  story.status = status;
  story.flags |= FLAG.DPE;
  story.code = "request_invalid";
  story.details = status === TOO_LARGE
    ? isHttp2 ? "http2.too_many_headers" : "http1.headers_too_large"
    : isHttp2
    ? "http2.violation.of.messaging.rule"
    : "http1.codec_error";
  // By HTTP/2 only the stream ends.
  if (!isHttp2) story.connectionDetails = detail;
}
