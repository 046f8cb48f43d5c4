/** One method of a Workload API: a stream that is kept open while there are followers. @module */

import process from "node:process";
import { Backoff, type Clock, messageOf, type Random, type Timer } from "../../base/mod.ts";
import {
  formatStatus,
  KeptStream,
  type OpenStream,
  type Reopening,
  type StreamEnd,
  type StreamHandler,
} from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";
import type { SocketArrivals } from "../file/socket_arrivals.ts";
import type { Secret, SecretSpec } from "../model/secret.ts";
import type { SecretEvents } from "../model/plan.ts";

export type FeedFollower = Pick<
  SvidFollower,
  "events" | "isInGrace" | "deliver" | "withdraw" | "close"
>;

interface FeedOptions<M> {
  /** Starts a server stream; its events come later, and none after `close`. */
  readonly open: (handler: StreamHandler<Uint8Array>) => OpenStream;
  /** Throws `credentials_invalid`. */
  readonly decode: (bytes: Uint8Array) => M;
  /** The server does not implement the method and will not be called again. */
  readonly onUnimplemented?: () => void;
  readonly arrivals: Pick<SocketArrivals, "begin" | "end">;
  readonly clock: Clock;
  readonly random: Random;
  /** For people: `the Workload API at unix:///run/agent.sock`. */
  readonly where: string;
}

export class Feed<M> {
  readonly #options: FeedOptions<M>;
  readonly #followers = new Map<FeedFollower, ReadMessage<M>>();
  readonly #stream: KeptStream<Uint8Array>;
  readonly #backoff: Backoff;
  /** While a withdrawn value is kept for a moment. */
  readonly #quickBackoff: Backoff;
  /** For faults that only an operator can remove. */
  readonly #longBackoff: Backoff;
  #last: M | undefined;
  /** Faults since the last message. */
  #unreachable: string | undefined;
  #rejected: string | undefined;

  constructor(options: FeedOptions<M>) {
    this.#options = options;
    const { clock, random, open } = options;
    this.#backoff = new Backoff({ baseMs: 500, maxMs: 30_000, random });
    this.#quickBackoff = new Backoff({ baseMs: 100, maxMs: 500, random });
    this.#longBackoff = new Backoff({ baseMs: 60_000, maxMs: 300_000, random });
    this.#stream = new KeptStream({
      clock,
      open,
      onMessage: (bytes) => this.#take(bytes),
      onEnd: (end) => this.#ended(end),
    });
  }

  add(follower: FeedFollower, read: ReadMessage<M>): void {
    this.#followers.set(follower, read);
    if (this.#followers.size === 1) return this.#stream.start();
    const last = this.#last;
    if (last !== undefined) follower.deliver(() => read(last));
    // The current faults are reported later, as all events.
    queueMicrotask(() => {
      if (!this.#followers.has(follower)) return;
      if (this.#rejected !== undefined) follower.events.onRejected(this.#rejected);
      if (this.#unreachable !== undefined) follower.events.onUnreachable(this.#unreachable);
    });
  }

  remove(follower: FeedFollower): void {
    if (this.#followers.delete(follower) && this.#followers.size === 0) this.close();
  }

  /** There may be another server now: opens a stream, unless one is open. */
  refresh(): void {
    this.#resetBackoffs();
    this.#stream.refresh();
  }

  /** Returns the followers that were removed by it. */
  close(): readonly FeedFollower[] {
    const followers = [...this.#followers.keys()];
    this.#followers.clear();
    this.#stream.stop();
    this.#set(undefined);
    return followers;
  }

  #set(message: M | undefined): void {
    this.#last = message;
    this.#unreachable = this.#rejected = undefined;
  }

  #resetBackoffs(): void {
    this.#backoff.reset();
    this.#longBackoff.reset();
  }

  #take(bytes: Uint8Array): void {
    this.#resetBackoffs();
    this.#options.arrivals.end();
    try {
      const message = this.#options.decode(bytes);
      this.#set(message);
      for (const [follower, read] of [...this.#followers]) follower.deliver(() => read(message));
    } catch (error) {
      // The last good message stays.
      const reason = messageOf(error);
      this.#rejected = reason;
      this.#unreachable = undefined;
      for (const { events } of [...this.#followers.keys()]) events.onRejected(reason);
    }
  }

  /** The status decides when the next stream is opened (SPIFFE Workload Endpoint 6). */
  #ended({ status, answered, isWell, isBrief }: StreamEnd): Reopening {
    // An agent that gives and withdraws again and again is not called faster for it.
    if (answered && !isBrief) this.#quickBackoff.reset();
    // A stream that ended well is opened again at once, unless it was brief.
    if (isWell) return isBrief ? this.#backoff.next() : 0;
    const statusText = formatStatus(status);
    switch (status.code) {
      case GRPC_STATUS.unimplemented: {
        const { onUnimplemented } = this.#options;
        if (onUnimplemented) onUnimplemented();
        else this.#report(`it does not offer this (${statusText})`);
        return "on_request";
      }
      case GRPC_STATUS.invalidArgument:
        this.#report(statusText);
        return this.#longBackoff.next();
      case GRPC_STATUS.permissionDenied:
        // A denial withdraws everything (SPIFFE Workload API 5.2.1).
        this.#last = undefined;
        this.#report(
          `nothing is registered for this process: ${caller()} (${statusText})`,
          (follower, reason) => follower.withdraw(reason),
        );
        break;
      case GRPC_STATUS.ok:
        this.#report("it ended the stream without a message");
        break;
      default:
        this.#report(statusText);
    }
    const isSoon = [...this.#followers.keys()].some(({ isInGrace }) => isInGrace);
    return (isSoon ? this.#quickBackoff : this.#backoff).next();
  }

  #report(fact: string, before?: (follower: FeedFollower, reason: string) => void): void {
    const { arrivals, where } = this.#options;
    arrivals.begin();
    const reason = `Cannot read from ${where}: ${fact}`;
    this.#unreachable = reason;
    for (const follower of [...this.#followers.keys()]) {
      before?.(follower, reason);
      follower.events.onUnreachable(reason);
    }
  }
}

/** Our process as the agent sees it at its socket; the agent's selectors match these values. */
function caller(): string {
  const { getuid, getgid, pid } = process;
  return `uid ${getuid?.()}, gid ${getgid?.()}, pid ${pid}`;
}

/** The part of a message for one reference. */
type SvidReading =
  /** `another`: the message has not the identity in use, but another one. */
  | {
    readonly kind: "there" | "another";
    /** Throws `credentials_invalid` if it cannot be used. */
    readonly spec: () => SecretSpec;
  }
  /** Continues "Cannot use ...: ". */
  | { readonly kind: "absent"; readonly fact: string };

export type ReadMessage<M> = (message: M) => SvidReading;

interface SvidFollowerOptions {
  readonly events: SecretEvents;
  /** The reference in messages: `"web"`. */
  readonly name: string;
  /** Decodes and checks; throws `credentials_invalid`. */
  readonly load: (spec: SecretSpec) => Promise<Secret>;
  /** The secret is in use from now on. */
  readonly onAccepted: (secret: Secret) => void;
  readonly clock: Clock;
  /** How long a withdrawn secret stays in use. */
  readonly graceMs: number;
}

/** A withdrawn secret is kept for a moment, in case a new answer replaces it. */
export class SvidFollower {
  readonly #options: SvidFollowerOptions;
  /** The newest message that is not read yet. */
  #next: (() => SvidReading) | undefined;
  #working = false;
  /** Changes when a running load must not count any more. */
  #epoch = 0;
  #closed = false;
  #state: "unknown" | "there" | "absent" = "unknown";
  /** The last reported secret, unless it was removed. */
  #current: Secret | undefined;
  #grace: Timer | undefined;
  /** Called at the end of the grace. */
  #afterGrace = () => {};
  /** The last grace of a certificate: an agent that withdraws and gives the same one gets no second grace. */
  #graced: { readonly certPem: string; readonly endsMs: number } | undefined;

  constructor(options: SvidFollowerOptions) {
    this.#options = options;
  }

  /** A withdrawn secret is in use: a new answer is wanted soon. */
  get isInGrace(): boolean {
    return this.#grace !== undefined;
  }

  get events(): SecretEvents {
    return this.#options.events;
  }

  /** A new full state, from either method. */
  deliver(read: () => SvidReading): void {
    this.#next = read;
    if (this.#working || this.#closed) return;
    this.#working = true;
    void this.#work();
  }

  /** The agent denies us every secret. A first value is still awaited. */
  withdraw(reason: string): void {
    this.#epoch++;
    this.#next = undefined;
    if (this.#state === "there") this.#keepThen(() => this.#remove(reason));
    else this.events.onDenied(reason);
  }

  close(): void {
    this.#closed = true;
    this.#endGrace();
    this.#epoch++;
    this.#next = undefined;
  }

  async #work(): Promise<void> {
    // No event before `watch` has returned.
    await Promise.resolve();
    for (let read = this.#next; read; read = this.#next) {
      this.#next = undefined;
      await this.#take(read());
    }
    this.#working = false;
  }

  async #take(reading: SvidReading): Promise<void> {
    const { name, load } = this.#options;
    if (reading.kind === "absent") {
      const reason = `Cannot use ${name}: ${reading.fact}`;
      if (this.#state === "there") this.#keepThen(() => this.#remove(reason));
      else if (this.#state === "unknown") this.#remove(reason);
      return;
    }
    const epoch = this.#epoch;
    const isAnother = reading.kind === "another";
    let secret: Secret;
    try {
      secret = await load(reading.spec());
    } catch (error) {
      if (this.#epoch !== epoch) return;
      const reason = `Cannot use ${name}: ${messageOf(error)}`;
      this.events.onRejected(reason);
      if (isAnother && this.#state === "there") this.#keepThen(() => this.#remove(reason));
      return;
    }
    if (this.#epoch !== epoch) return;
    if (isAnother && this.#state === "there") this.#keepThen(() => this.#accept(secret));
    else this.#accept(secret);
  }

  #accept(secret: Secret): void {
    this.#endGrace();
    this.#state = "there";
    this.#current = secret;
    this.#options.onAccepted(secret);
    this.events.onSecret(secret, "");
  }

  /** Keeps the current secret for the grace; `then` is called unless another answer comes before. */
  #keepThen(then: () => void): void {
    this.#afterGrace = then;
    if (this.#grace) return;
    const { clock } = this.#options;
    const leftMs = this.#graceEndsMs() - clock.monotonic();
    if (leftMs <= 0) return then();
    this.#grace = clock.after(leftMs, () => this.#afterGrace());
  }

  #graceEndsMs(): number {
    const { clock, graceMs } = this.#options;
    const endsMs = clock.monotonic() + graceMs;
    const current = this.#current;
    // A bundle stays the same when an entry is replaced, and proves no identity of ours.
    if (current?.type !== "certificate") return endsMs;
    const { certPem, notAfterMs } = current;
    if (this.#graced?.certPem !== certPem) this.#graced = { certPem, endsMs };
    return Math.min(this.#graced.endsMs, clock.monotonic() + notAfterMs - clock.now());
  }

  #endGrace(): void {
    this.#grace?.cancel();
    this.#grace = undefined;
  }

  #remove(reason: string): void {
    this.#endGrace();
    this.#state = "absent";
    this.#current = undefined;
    this.events.onRemoved(reason);
  }
}
