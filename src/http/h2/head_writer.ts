/** Writes heads as HEADERS and CONTINUATION frames, encoded directly into the output. @module */

import { FIELD, type Fields, type RequestHead, type ResponseHead } from "../head.ts";
import { Flag, FRAME_HEADER_BYTES, FrameType, MAX_FRAME_BYTES } from "./frame.ts";
import { FIELD_ROOM_BYTES, type HpackEncoder } from "./hpack/encoder.ts";
import type { Output } from "./output.ts";

/** Fields that the codec itself writes, and fields that HTTP/2 forbids (RFC 9113 8.2.2). */
const LEFT_OUT = new Set(
  ("connection keep-alive proxy-connection transfer-encoding upgrade host content-length " +
    "http2-settings").split(" "),
);
/** Room for pseudo-fields, length and expectation, without their values. */
const FIXED_BYTES = 256;

export class HeadWriter {
  readonly #encoder: HpackEncoder;
  readonly #output: Output;
  /** Memory of the block, and the position of the next octet. */
  #to: Uint8Array;
  #at = 0;
  /** Whether the block is written into the output's memory, after room for a frame header. */
  #inPlace = false;

  constructor(encoder: HpackEncoder, output: Output) {
    this.#encoder = encoder;
    this.#output = output;
    this.#to = output.bytes;
  }

  request(streamId: number, head: RequestHead, ends: boolean): void {
    const { method, scheme, authority, path, upgrade, length, fields } = head;
    const connects = method === "CONNECT";
    this.#begin(fields, method.length + authority.length + path.length + upgrade.length);
    this.#field(":method", upgrade === "" ? method : "CONNECT");
    if (upgrade !== "") this.#field(":protocol", upgrade);
    if (!connects) this.#field(":scheme", scheme === "" ? "http" : scheme);
    this.#field(":authority", authority);
    if (!connects) this.#field(":path", path);
    // Some servers require a length for methods that usually have a body (RFC 9110 8.6).
    const sendsZero = !ends || method === "POST" || method === "PUT" || method === "PATCH";
    if ((length > 0 || (length === 0 && sendsZero)) && !connects && upgrade === "") {
      this.#field("content-length", String(length));
    }
    if (head.expectsContinue) this.#field("expect", "100-continue");
    this.#end(streamId, fields, ends);
  }

  response(streamId: number, { status, length, fields }: ResponseHead, ends: boolean): void {
    this.#begin(fields, 0);
    this.#field(":status", String(status));
    if (length >= 0 && status >= 200 && status !== 204) {
      this.#field("content-length", String(length));
    }
    this.#end(streamId, fields, ends);
  }

  trailers(streamId: number, fields: Fields): void {
    this.#begin(fields, 0);
    this.#end(streamId, fields, true);
  }

  #begin(fields: Fields, valueBytes: number): void {
    let size = FIXED_BYTES + valueBytes;
    for (let i = 0; i < fields.length; i += FIELD) {
      size += (fields[i] as string).length + (fields[i + 1] as string).length + FIELD_ROOM_BYTES;
    }
    this.#inPlace = size <= MAX_FRAME_BYTES;
    if (this.#inPlace) {
      this.#output.reserve(FRAME_HEADER_BYTES + size);
      this.#to = this.#output.bytes;
      this.#at = this.#output.length + FRAME_HEADER_BYTES;
    } else {
      this.#to = new Uint8Array(size);
      this.#at = 0;
    }
    this.#at = this.#encoder.begin(this.#to, this.#at);
  }

  #field(name: string, value: string): void {
    this.#at = this.#encoder.field(name, value, this.#to, this.#at);
  }

  #end(streamId: number, fields: Fields, ends: boolean): void {
    const to = this.#to;
    let at = this.#at;
    for (let i = 0; i < fields.length; i += FIELD) {
      const name = fields[i] as string;
      const value = fields[i + 1] as string;
      if (LEFT_OUT.has(name) || (name === "te" && value !== "trailers")) continue;
      at = this.#encoder.field(name, value, to, at);
    }
    const flags = ends ? Flag.endStream : 0;
    const output = this.#output;
    if (this.#inPlace) {
      const size = at - output.length - FRAME_HEADER_BYTES;
      output.frame(FrameType.headers, flags | Flag.endHeaders, streamId, size);
      output.length += size;
      return;
    }
    this.#to = output.bytes;
    let type: number = FrameType.headers;
    let start = 0;
    for (let left = at; left > 0;) {
      const size = Math.min(left, MAX_FRAME_BYTES);
      left -= size;
      const last = left === 0 ? Flag.endHeaders : 0;
      output.frame(type, (type === FrameType.headers ? flags : 0) | last, streamId, size);
      output.put(to.subarray(start, start + size));
      start += size;
      type = FrameType.continuation;
    }
  }
}
