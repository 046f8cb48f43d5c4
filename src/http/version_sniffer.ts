/**
 * Detects which version of HTTP a client speaks when no handshake has settled it (RFC 9113 3.3): by the
 * first bytes, which are kept for the codec.
 *
 * @module
 */

import type { Stream, StreamEvents } from "../net/mod.ts";

/** No method of HTTP/1.1 begins like this; the HTTP/2 codec checks the rest of the preface. */
const PREFACE = "PRI ";

export class VersionSniffer implements StreamEvents {
  readonly #stream: Stream;
  readonly #decide: (isHttp2: boolean) => void;
  #chunks: Uint8Array[] = [];
  #seen = 0;

  /** `decide` must give the stream its next events; the kept bytes go to them. */
  constructor(stream: Stream, decide: (isHttp2: boolean) => void) {
    this.#stream = stream;
    this.#decide = decide;
    stream.events = this;
  }

  /** As {@link ServerConnection.openHead}. */
  get openHead(): number {
    return this.#seen > 0 ? 1 : 0;
  }

  onData(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    for (const byte of chunk) {
      if (byte !== PREFACE.charCodeAt(this.#seen)) return this.#over(false);
      if (++this.#seen === PREFACE.length) return this.#over(true);
    }
  }

  onEnd(): void {
    this.#over(false);
    this.#stream.events.onEnd();
  }

  onDrain(): void {}

  onClose(reset: boolean, alert: string): void {
    this.#decide(false);
    this.#stream.events.onClose(reset, alert);
  }

  #over(isHttp2: boolean): void {
    this.#decide(isHttp2);
    for (const chunk of this.#chunks) this.#stream.events.onData(chunk);
  }
}
