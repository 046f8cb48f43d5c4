/**
 * Bytes from one stream to another, both ways, until both have ended. A side that cannot take
 * more stops the other from sending; an end is passed on as an end and a reset as a reset; the last
 * bytes arrive before the end does.
 *
 * @module
 */

import type { Stream, StreamEvents } from "./port.ts";

/** Why a relay is over. */
export type RelayEnd =
  /** Both halves ended in an orderly way; `first` ended its half first. */
  | { readonly kind: "ended"; readonly first: "downstream" | "upstream" }
  | {
    readonly kind: "reset";
    readonly by: "downstream" | "upstream";
    /** Who ended or broke anything first. */
    readonly first: "downstream" | "upstream";
    /** See {@link StreamEvents.onClose}. */
    readonly alert: string;
  };

/** Time in ticks of the owner's sweep: a relay notes the tick of its last byte, nothing more. */
export interface Ticker {
  tick: number;
}

export class Relay {
  readonly downstream: Stream;
  readonly upstream: Stream;
  /** Bytes that came from the downstream, and that went to it. */
  receivedBytes = 0;
  sentBytes = 0;
  /** Tick of the last byte either way. */
  activeTick: number;
  /** Tick of the downstream's first byte; before it that of the start. */
  firstTick: number;
  /** Tick of the first end or close on either side. */
  endTick: number | undefined;
  readonly #ticker: Ticker;
  readonly #onOver: (end: RelayEnd) => void;
  #firstEnd: "downstream" | "upstream" | undefined;
  #over = false;

  constructor(
    downstream: Stream,
    upstream: Stream,
    options: { readonly ticker: Ticker; readonly onOver: (end: RelayEnd) => void },
  ) {
    this.downstream = downstream;
    this.upstream = upstream;
    this.#ticker = options.ticker;
    this.activeTick = this.firstTick = options.ticker.tick;
    this.#onOver = options.onOver;
    downstream.events = new DownstreamHalf(this);
    upstream.events = new UpstreamHalf(this);
  }

  fromDownstream(chunk: Uint8Array): void {
    this.activeTick = this.#ticker.tick;
    if (this.receivedBytes === 0) this.firstTick = this.activeTick;
    this.receivedBytes += chunk.length;
    if (!this.upstream.give(chunk)) this.downstream.pause();
  }

  fromUpstream(chunk: Uint8Array): void {
    this.sentBytes += chunk.length;
    this.activeTick = this.#ticker.tick;
    if (!this.downstream.give(chunk)) this.upstream.pause();
  }

  ended(side: "downstream" | "upstream"): void {
    this.#noteEnd(side);
    (side === "downstream" ? this.upstream : this.downstream).end();
  }

  /** One side is gone. The other is told the same way, then the relay waits for its close, too. */
  closed(side: "downstream" | "upstream", reset: boolean, alert: string): void {
    if (this.#over) return;
    const first = this.#noteEnd(side);
    const other = side === "downstream" ? this.upstream : this.downstream;
    if (reset) {
      this.#over = true;
      other.reset();
      this.#onOver({ kind: "reset", by: side, first, alert });
      return;
    }
    if (this.#closedSide === undefined) {
      this.#closedSide = side;
      // Whatever is still on its way to the other side is sent before its end.
      other.end();
      return;
    }
    this.#over = true;
    this.#onOver({ kind: "ended", first });
  }

  /** Who ended first, now that `side` has. */
  #noteEnd(side: "downstream" | "upstream"): "downstream" | "upstream" {
    this.endTick ??= this.#ticker.tick;
    return this.#firstEnd ??= side;
  }

  #closedSide: "downstream" | "upstream" | undefined;

  /** Ends it from outside, orderly or not; `onOver` is not called. */
  stop(how: "close" | "reset"): void {
    this.#over = true;
    for (const side of [this.downstream, this.upstream]) {
      if (how === "close") side.close();
      else side.reset();
    }
  }
}

class DownstreamHalf implements StreamEvents {
  readonly #relay: Relay;
  constructor(relay: Relay) {
    this.#relay = relay;
  }
  onData(chunk: Uint8Array): void {
    this.#relay.fromDownstream(chunk);
  }
  onDrain(): void {
    this.#relay.upstream.resume();
  }
  onEnd(): void {
    this.#relay.ended("downstream");
  }
  onClose(reset: boolean, alert: string): void {
    this.#relay.closed("downstream", reset, alert);
  }
}

class UpstreamHalf implements StreamEvents {
  readonly #relay: Relay;
  constructor(relay: Relay) {
    this.#relay = relay;
  }
  onData(chunk: Uint8Array): void {
    this.#relay.fromUpstream(chunk);
  }
  onDrain(): void {
    this.#relay.downstream.resume();
  }
  onEnd(): void {
    this.#relay.ended("upstream");
  }
  onClose(reset: boolean, alert: string): void {
    this.#relay.closed("upstream", reset, alert);
  }
}
