/** SETTINGS (RFC 9113 6.5): those that we send to a peer, and those that we receive. @module */

import type { HttpLimits } from "../exchange.ts";
import {
  DEFAULT_WINDOW_BYTES,
  FrameType,
  Http2ErrorCode,
  MAX_FRAME_BYTES,
  MAX_WINDOW_BYTES,
} from "./frame.ts";
import { DEFAULT_TABLE_BYTES } from "./hpack/fields.ts";
import type { Output } from "./output.ts";

const HEADER_TABLE_SIZE = 1;
const ENABLE_PUSH = 2;
const MAX_CONCURRENT_STREAMS = 3;
const INITIAL_WINDOW_SIZE = 4;
const MAX_FRAME_SIZE = 5;
const MAX_HEADER_LIST_SIZE = 6;
/** RFC 8441. */
const ENABLE_CONNECT_PROTOCOL = 8;

const ENTRY_BYTES = 6;
/** Far more than there are settings (CVE-2020-11080). */
const ENTRIES_LIMIT = 32;

interface SettingsFault {
  readonly code: Http2ErrorCode;
  readonly detail: string;
}

/** The settings of the peer; the protocol's defaults until they come. */
export class PeerSettings {
  tableBytes: number = DEFAULT_TABLE_BYTES;
  /** For a server: streams that we may open; before its SETTINGS the minimum that RFC 9113 recommends. */
  concurrentStreams: number = 100;
  windowBytes: number = DEFAULT_WINDOW_BYTES;
  /** For a server: whether it supports extended CONNECT. */
  connectProtocol = false;
  /** Whether the peer has sent SETTINGS. */
  received = false;

  /** Applies the payload of a frame. Returns the fault, or undefined. */
  take(
    bytes: Uint8Array,
    start: number,
    end: number,
    byServer: boolean,
  ): SettingsFault | undefined {
    const size = end - start;
    if (size % ENTRY_BYTES !== 0) return fault(Http2ErrorCode.frameSize, "broken settings");
    if (size > ENTRIES_LIMIT * ENTRY_BYTES) {
      return fault(Http2ErrorCode.enhanceYourCalm, "too many settings");
    }
    if (!this.received) this.concurrentStreams = Infinity;
    this.received = true;
    const view = new DataView(bytes.buffer, bytes.byteOffset + start, size);
    for (let at = 0; at < size; at += ENTRY_BYTES) {
      const value = view.getUint32(at + 2);
      switch (view.getUint16(at)) {
        case HEADER_TABLE_SIZE:
          this.tableBytes = value;
          break;
        case ENABLE_PUSH:
          if (value > (byServer ? 0 : 1)) return invalid("ENABLE_PUSH");
          break;
        case MAX_CONCURRENT_STREAMS:
          this.concurrentStreams = value;
          break;
        case INITIAL_WINDOW_SIZE:
          if (value > MAX_WINDOW_BYTES) {
            return fault(Http2ErrorCode.flowControl, "an initial window above the limit");
          }
          this.windowBytes = value;
          break;
        case MAX_FRAME_SIZE:
          // We never send larger frames than every peer accepts.
          if (value < MAX_FRAME_BYTES || value > 0xff_ffff) return invalid("MAX_FRAME_SIZE");
          break;
        case ENABLE_CONNECT_PROTOCOL:
          if (value > 1 || (value === 0 && this.connectProtocol)) {
            return invalid("ENABLE_CONNECT_PROTOCOL");
          }
          this.connectProtocol = value === 1;
          break;
      }
    }
    return undefined;
  }
}

function invalid(name: string): SettingsFault {
  return fault(Http2ErrorCode.protocol, `no valid value of ${name}`);
}

function fault(code: Http2ErrorCode, detail: string): SettingsFault {
  return { code, detail };
}

/** Writes our first frame, and the window of the connection. */
export function writeSettings(output: Output, limits: HttpLimits, side: "server" | "client"): void {
  const settings = [
    [INITIAL_WINDOW_SIZE, limits.streamWindowBytes],
    [MAX_HEADER_LIST_SIZE, limits.headBytes],
    ...side === "server"
      ? [[MAX_CONCURRENT_STREAMS, limits.concurrentStreams], [ENABLE_CONNECT_PROTOCOL, 1]]
      : [[ENABLE_PUSH, 0]],
  ] as const;
  output.frame(FrameType.settings, 0, 0, settings.length * ENTRY_BYTES);
  for (const [name, value] of settings) {
    output.put16(name);
    output.put32(value);
  }
  const more = limits.connectionWindowBytes - DEFAULT_WINDOW_BYTES;
  if (more > 0) output.frame32(FrameType.windowUpdate, 0, more);
}
