/**
 * One method of one Workload API: a stream while anybody follows it, and its last message for those who
 * come later.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import type { ReadMessage, SvidFollower } from "./svid_follower.ts";
import type { StreamFailure, WorkloadStream, WorkloadStreamEvents } from "./workload_stream.ts";

export interface FeedOptions<M> {
  readonly open: (events: WorkloadStreamEvents) => WorkloadStream;
  /** Throws `credentials_invalid`. */
  readonly decode: (bytes: Uint8Array) => M;
  /** The server does not know the method and will not be asked again. */
  readonly onUnimplemented?: () => void;
}

export class Feed<M> {
  readonly #options: FeedOptions<M>;
  readonly #followers = new Map<SvidFollower, ReadMessage<M>>();
  #stream: WorkloadStream | undefined;
  #last: M | undefined;
  /** Since the last message. */
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
    // What others were told before, later, as everything.
    void Promise.resolve().then(() => {
      if (!this.#followers.has(follower)) return;
      if (this.#rejected !== undefined) follower.events.onRejected(this.#rejected);
      if (this.#failure) follower.events.onUnreachable(this.#failure.reason);
    });
  }

  remove(follower: SvidFollower): void {
    if (this.#followers.delete(follower) && this.#followers.size === 0) this.close();
  }

  /** Everybody who follows, who then does no more. */
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
    this.#last = undefined;
    this.#failure = undefined;
    this.#rejected = undefined;
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

  #take(message: M): void {
    this.#last = message;
    this.#failure = undefined;
    this.#rejected = undefined;
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
    const denied = failure.kind === "denied";
    if (denied) this.#last = undefined;
    const followers = [...this.#followers.keys()];
    for (const follower of followers) {
      // Denial takes everything back (SPIFFE Workload API 5.2.1).
      if (denied) follower.withdraw(failure.reason);
      follower.events.onUnreachable(failure.reason);
    }
    return followers.some(({ isInGrace }) => isInGrace) ? "soon" : undefined;
  }
}
