/**
 * Writes the body of a message, and checks it against the head.
 *
 * @module
 */

import type { Stream } from "../../net/mod.ts";
import type { Fields } from "../head.ts";
import { writeHead, writeText } from "./write_head.ts";

/** How the end of a body is marked. */
export type Framing = "none" | "length" | "chunked" | "until_close";

export class BodyWriter {
  readonly #stream: Stream;
  framing: Framing = "none";
  /** Bytes of the declared length that are still to be sent. */
  #left = 0;

  constructor(stream: Stream) {
    this.#stream = stream;
  }

  start(framing: Framing, length: number): void {
    this.framing = framing;
    this.#left = length;
  }

  /** The receiver can tell that it has the whole message. */
  get isComplete(): boolean {
    return this.framing === "none" || this.framing === "length" && this.#left === 0;
  }

  /**
   * False: stop until the stream drains; undefined: the chunk exceeds the declared length, and was not
   * sent.
   */
  send(chunk: Uint8Array): boolean | undefined {
    const { length } = chunk;
    // An empty chunk would end the body.
    if (length === 0) return true;
    switch (this.framing) {
      case "none":
        return true;
      case "length":
        if (length > this.#left) return undefined;
        this.#left -= length;
        return this.#stream.give(chunk);
      case "chunked":
        writeText(this.#stream, `${length.toString(16)}\r\n`);
        this.#stream.give(chunk);
        return writeText(this.#stream, "\r\n");
      case "until_close":
        return this.#stream.give(chunk);
    }
  }

  /** False: less was sent than was declared, or a trailer cannot be written. */
  end(trailers: Fields | undefined): boolean {
    if (this.framing === "length") return this.#left === 0;
    if (this.framing !== "chunked") return true;
    if (!trailers?.length) {
      writeText(this.#stream, "0\r\n\r\n");
      return true;
    }
    return writeHead(this.#stream, "0", trailers, "") !== undefined;
  }
}
