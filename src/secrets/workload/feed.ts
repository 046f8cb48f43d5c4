/**
 * One method of a Workload API: a stream while there are followers, and its last message for followers
 * that come later.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import type { ReadMessage, SvidFollower } from "./svid_follower.ts";
import type { StreamFailure, WorkloadStream, WorkloadStreamEvents } from "./workload_stream.ts";

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
