/**
 * One method of a Workload API: a stream that is kept open while there are followers, and its last message
 * for followers that come later. The last status of a stream decides when the next one is opened (SPIFFE
 * Workload Endpoint 6).
 *
 * @module
 */

import { Backoff, type Clock, messageOf, type Random } from "../../base/mod.ts";
import {
  formatStatus,
  KeptStream,
  type OpenStream,
  type Reopening,
  type StreamEnd,
  type StreamHandler,
} from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";
import type { ReadMessage, SvidFollower } from "./svid_follower.ts";

interface FeedOptions<M> {
  readonly open: (events: WorkloadStreamEvents) => WorkloadStream;
  /** Throws `credentials_invalid`. */
  readonly decode: (bytes: Uint8Array) => M;
  /** The server does not implement the method and will not be called again. */
  readonly onUnimplemented?: () => void;
}

export class Feed<M> {
  readonly #options: FeedOptions<M>;
  readonly #followers = new Map<SvidFollower, ReadMessage<M>>();
  #stream: WorkloadStream | undefined;
  #last: M | undefined;
  /** The failure since the last message. */
  #failure: StreamFailure | undefined;
  #rejected: string | undefined;

  constructor(options: FeedOptions<M>) {
    this.#options = options;
  }

  add(follower: SvidFollower, read: ReadMessage<M>): void {
    this.#followers.set(follower, read);
    if (!this.#stream) return this.#start();
    const last = this.#last;
    if (last !== undefined) follower.deliver(() => read(last));
    // The current faults are reported later, as all events.
    queueMicrotask(() => {
      if (!this.#followers.has(follower)) return;
      if (this.#rejected !== undefined) follower.events.onRejected(this.#rejected);
      if (this.#failure) follower.events.onUnreachable(this.#failure.reason);
    });
  }

  remove(follower: SvidFollower): void {
    if (this.#followers.delete(follower) && this.#followers.size === 0) this.close();
  }

  /** Removes all followers, and returns them. */
  takeAll(): SvidFollower[] {
    const all = [...this.#followers.keys()];
    this.#followers.clear();
    this.close();
    return all;
  }

  refresh(): void {
    this.#stream?.refresh();
  }

  close(): void {
    const stream = this.#stream;
    this.#stream = undefined;
    this.#set(undefined);
    stream?.close();
  }

  #start(): void {
    const stream = this.#options.open({
      onMessage: (bytes) => {
        try {
          const message = this.#options.decode(bytes);
          if (this.#stream === stream) this.#take(message);
        } catch (error) {
          if (this.#stream === stream) this.#reject(messageOf(error));
        }
      },
      onFailed: (failure) => this.#stream === stream ? this.#failed(failure) : undefined,
    });
    this.#stream = stream;
  }

  /** A message without faults since. */
  #set(message: M | undefined): void {
    this.#last = message;
    this.#failure = undefined;
    this.#rejected = undefined;
  }

  #take(message: M): void {
    this.#set(message);
    for (const [follower, read] of [...this.#followers]) follower.deliver(() => read(message));
  }

  /** The last good message stays. */
  #reject(reason: string): void {
    this.#rejected = reason;
    this.#failure = undefined;
    for (const follower of [...this.#followers.keys()]) follower.events.onRejected(reason);
  }

  #failed(failure: StreamFailure): "soon" | undefined {
    const { onUnimplemented } = this.#options;
    if (failure.kind === "unimplemented" && onUnimplemented) {
      onUnimplemented();
      return undefined;
    }
    this.#failure = failure;
    const isDenied = failure.kind === "denied";
    if (isDenied) this.#last = undefined;
    const followers = [...this.#followers.keys()];
    for (const follower of followers) {
      // A denial withdraws everything (SPIFFE Workload API 5.2.1).
      if (isDenied) follower.withdraw(failure.reason);
      follower.events.onUnreachable(failure.reason);
    }
    return followers.some(({ isInGrace }) => isInGrace) ? "soon" : undefined;
  }
}

import process from "node:process";

export interface WorkloadStreamEvents {
  /** Throws nothing. */
  onMessage(bytes: Uint8Array): void;
  /**
   * The stream ended. The next one is opened later, unless the server does not implement the method;
   * `soon`: earlier, because a withdrawn value is kept for a moment only.
   */
  onFailed(failure: StreamFailure): "soon" | undefined;
}

export interface StreamFailure {
  readonly kind: "unreachable" | "denied" | "refused" | "unimplemented";
  readonly reason: string;
}

export interface WorkloadStreamOptions {
  /** Starts a server stream; its events come later, and none after `close`. */
  readonly open: (handler: StreamHandler<Uint8Array>) => OpenStream;
  readonly clock: Clock;
  readonly random: Random;
  readonly events: WorkloadStreamEvents;
  /** For people: `the Workload API at unix:///run/agent.sock`. */
  readonly where: string;
}

export class WorkloadStream {
  readonly #options: WorkloadStreamOptions;
  readonly #stream: KeptStream<Uint8Array>;
  readonly #backoff: Backoff;
  /** While a withdrawn value is kept. */
  readonly #haste: Backoff;
  /** For faults that only an operator can remove. */
  readonly #patience: Backoff;

  constructor(options: WorkloadStreamOptions) {
    this.#options = options;
    const { clock, random, open, events } = options;
    this.#backoff = new Backoff({ baseMs: 500, maxMs: 30_000, random });
    this.#haste = new Backoff({ baseMs: 100, maxMs: 500, random });
    this.#patience = new Backoff({ baseMs: 60_000, maxMs: 300_000, random });
    this.#stream = new KeptStream({
      clock,
      open,
      onMessage: (bytes) => {
        this.#resetBackoffs();
        return events.onMessage(bytes);
      },
      onEnd: (end) => this.#ended(end),
    });
    this.#stream.start();
  }

  /** There may be another server now: opens a stream, unless one is open. */
  refresh(): void {
    this.#resetBackoffs();
    this.#stream.refresh();
  }

  close(): void {
    this.#stream.stop();
  }

  #resetBackoffs(): void {
    this.#backoff.reset();
    this.#patience.reset();
  }

  #ended({ status, answered, isWell, isBrief }: StreamEnd): Reopening {
    // An agent that gives and withdraws again and again is not called faster for it.
    if (answered && !isBrief) this.#haste.reset();
    // A stream that ended well is opened again at once, unless it was brief.
    if (isWell) return isBrief ? this.#backoff.next() : 0;
    const said = formatStatus(status);
    switch (status.code) {
      case GRPC_STATUS.ok:
        return this.#failed("unreachable", "it ended the stream without a message");
      case GRPC_STATUS.unimplemented:
        this.#failed("unimplemented", `it does not offer this (${said})`);
        return "on_request";
      case GRPC_STATUS.invalidArgument:
        this.#failed("refused", said);
        return this.#patience.next();
      case GRPC_STATUS.permissionDenied:
        return this.#failed(
          "denied",
          `nothing is registered for this process: ${caller()} (${said})`,
        );
      default:
        return this.#failed("unreachable", said);
    }
  }

  /** Returns the wait before the next stream. */
  #failed(kind: StreamFailure["kind"], fact: string): number {
    const reason = `Cannot read from ${this.#options.where}: ${fact}`;
    const isSoon = this.#options.events.onFailed({ kind, reason }) === "soon";
    return (isSoon ? this.#haste : this.#backoff).next();
  }
}

/** What the agent sees at our end of its socket, which its selectors match. */
function caller(): string {
  const { getuid, getgid, pid } = process;
  return `uid ${getuid?.()}, gid ${getgid?.()}, pid ${pid}`;
}
