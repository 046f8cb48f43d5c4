/** Numbers of HTTP/2's frames (RFC 9113 6, 7), and their meaning for an exchange. @module */

import type { ResetReason } from "../exchange.ts";

export const FrameType = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const Flag = {
  endStream: 0x1,
  ack: 0x1,
  endHeaders: 0x4,
  padded: 0x8,
  priority: 0x20,
} as const;

export const Http2ErrorCode = {
  none: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  settingsTimeout: 4,
  streamClosed: 5,
  frameSize: 6,
  refusedStream: 7,
  cancel: 8,
  compression: 9,
  connect: 10,
  enhanceYourCalm: 11,
} as const;
export type Http2ErrorCode = typeof Http2ErrorCode[keyof typeof Http2ErrorCode];

export const FRAME_HEADER_BYTES = 9;
/** The largest payload that we accept, and that a peer accepts until its settings allow more. */
export const MAX_FRAME_BYTES = 16_384;
/** The default window of a stream or connection, and the largest allowed. */
export const DEFAULT_WINDOW_BYTES = 65_535;
export const MAX_WINDOW_BYTES = 0x7fff_ffff;
export const MAX_STREAM_ID = 0x7fff_ffff;

/** The first octets that a client sends (RFC 9113 3.4). */
export const PREFACE: Uint8Array = new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

export const CODES: Readonly<Record<ResetReason, Http2ErrorCode>> = {
  refused: Http2ErrorCode.refusedStream,
  cancelled: Http2ErrorCode.cancel,
  protocol: Http2ErrorCode.protocol,
  connection: Http2ErrorCode.internal,
  timed_out: Http2ErrorCode.cancel,
  overflow: Http2ErrorCode.enhanceYourCalm,
  internal: Http2ErrorCode.internal,
};

const REASONS: Readonly<Record<number, ResetReason>> = {
  [Http2ErrorCode.none]: "cancelled",
  [Http2ErrorCode.cancel]: "cancelled",
  [Http2ErrorCode.refusedStream]: "refused",
  [Http2ErrorCode.internal]: "internal",
  [Http2ErrorCode.streamClosed]: "internal",
  [Http2ErrorCode.connect]: "connection",
  [Http2ErrorCode.enhanceYourCalm]: "overflow",
};

export function reasonOf(code: number): ResetReason {
  return REASONS[code] ?? "protocol";
}
