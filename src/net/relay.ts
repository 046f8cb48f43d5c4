/**
 * Bytes from one stream to another, both ways, until both have ended. A side that cannot take
 * more stops the other from sending; an end is passed on as an end and a reset as a reset; the last
 * bytes arrive before the end does.
 *
 * @module
 */

import type { Stream, StreamEvents } from "./port.ts";

type Side = "downstream" | "upstream";

export type RelayEnd =
  /** Both halves ended in an orderly way; `first` ended its half first. */
  | { readonly kind: "ended"; readonly first: Side }
  | {
    readonly kind: "reset";
    readonly by: Side;
    /** The side that ended or broke first. */
    readonly first: Side;
    /** See {@link StreamEvents.onClose}. */
    readonly alert: string;
  };

/** Time in ticks of the owner's sweep: a relay only notes the tick of its last byte. */
export interface Ticker {
  tick: number;
}

/** Counts bytes that wait in memory for the slower side. */
export interface HeldCounter {
  hold(size: number): void;
  release(size: number): void;
}

export class Relay {
  readonly downstream: Stream;
  readonly upstream: Stream;
  /** Bytes from the downstream; `sentBytes`: bytes to it. */
  receivedBytes = 0;
  sentBytes = 0;
  /** Tick of the last byte either way. */
  activeTick: number;
  /** Tick of the downstream's first byte; until then the tick of the start. */
  firstTick: number;
  /** Tick of the first end or close on either side. */
  endTick: number | undefined;
  readonly #ticker: Ticker;
  readonly #onOver: (end: RelayEnd) => void;
  readonly held: HeldCounter | undefined;
  readonly #halves: readonly [Half, Half];
  #firstEnd: Side | undefined;
  #closedSide: Side | undefined;
  #over = false;

  constructor(
    downstream: Stream,
    upstream: Stream,
    options: {
      readonly ticker: Ticker;
      readonly held?: HeldCounter;
      readonly onOver: (end: RelayEnd) => void;
    },
  ) {
    this.downstream = downstream;
    this.upstream = upstream;
    this.#ticker = options.ticker;
    this.held = options.held;
    this.activeTick = this.firstTick = options.ticker.tick;
    this.#onOver = options.onOver;
    this.#halves = [
      new Half(this, "downstream", downstream, upstream),
      new Half(this, "upstream", upstream, downstream),
    ];
    [downstream.events, upstream.events] = this.#halves;
  }

  came(side: Side, size: number): void {
    this.activeTick = this.#ticker.tick;
    if (side === "upstream") {
      this.sentBytes += size;
      return;
    }
    if (this.receivedBytes === 0) this.firstTick = this.activeTick;
    this.receivedBytes += size;
  }

  /** The bytes that waited for `side` are sent; they came from the other half. */
  drained(side: Side): void {
    this.#halves[side === "downstream" ? 1 : 0].sent();
  }

  /** Bytes of `side` that the other side has not taken yet. */
  waitingOf(side: Side): number {
    return this.#halves[side === "downstream" ? 0 : 1].waiting;
  }

  #forget(): void {
    for (const half of this.#halves) half.sent();
  }

  ended(side: Side): void {
    this.#noteEnd(side);
    (side === "downstream" ? this.upstream : this.downstream).end();
  }

  /** One side is closed. The other is closed in the same manner; the relay waits for its close, too. */
  closed(side: Side, reset: boolean, alert: string): void {
    if (this.#over) return;
    const first = this.#noteEnd(side);
    const other = side === "downstream" ? this.upstream : this.downstream;
    if (reset) {
      this.#over = true;
      this.#forget();
      other.reset();
      this.#onOver({ kind: "reset", by: side, first, alert });
      return;
    }
    if (this.#closedSide === undefined) {
      this.#closedSide = side;
      // Bytes under way to the other side are sent before its end.
      other.end();
      return;
    }
    this.#over = true;
    this.#forget();
    this.#onOver({ kind: "ended", first });
  }

  /** Notes that `side` ended; the side that ended first. */
  #noteEnd(side: Side): Side {
    this.endTick ??= this.#ticker.tick;
    return this.#firstEnd ??= side;
  }

  /** Ends it from outside, orderly or not; `onOver` is not called. */
  stop(how: "close" | "reset"): void {
    this.#over = true;
    this.#forget();
    for (const side of [this.downstream, this.upstream]) {
      if (how === "close") side.close();
      else side.reset();
    }
  }
}

/** Passes events of one side on to the other. */
class Half implements StreamEvents {
  readonly #relay: Relay;
  readonly #side: Side;
  readonly #own: Stream;
  readonly #other: Stream;
  /** Bytes given to the other side that wait there. */
  #waiting = 0;
  constructor(relay: Relay, side: Side, own: Stream, other: Stream) {
    this.#relay = relay;
    this.#side = side;
    this.#own = own;
    this.#other = other;
  }
  get waiting(): number {
    return this.#waiting;
  }
  onData(chunk: Uint8Array): void {
    this.#relay.came(this.#side, chunk.length);
    if (this.#other.give(chunk)) return;
    this.#own.pause();
    this.#waiting += chunk.length;
    this.#relay.held?.hold(chunk.length);
  }
  onDrain(): void {
    this.#relay.drained(this.#side);
    this.#other.resume();
  }
  sent(): void {
    if (this.#waiting === 0) return;
    this.#relay.held?.release(this.#waiting);
    this.#waiting = 0;
  }
  onEnd(): void {
    this.#relay.ended(this.#side);
  }
  onClose(reset: boolean, alert: string): void {
    this.#relay.closed(this.#side, reset, alert);
  }
}
