/**
 * One stream to a Workload API, kept up: when it is opened again after it ended, by what it said (SPIFFE
 * Workload Endpoint 6). What its messages mean is left to the caller.
 *
 * @module
 */

import process from "node:process";
import { Backoff, type Clock, type Random, type Timer } from "../../base/mod.ts";
import { formatStatus, type GrpcStatus, type StreamHandler } from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";

/** Starts a server stream; as of {@link GrpcChannel}, events come later and none after `close`. */
export type OpenCall = (handler: StreamHandler<Uint8Array>) => { close(): void };

export interface WorkloadStreamEvents {
  /** Throws nothing. */
  onMessage(bytes: Uint8Array): void;
  /**
   * It ended and will be opened again, unless the server does not know the method; soon, where what was
   * taken back is kept for a moment only.
   */
  onFailed(failure: StreamFailure): "soon" | undefined;
}

export interface StreamFailure {
  readonly kind: "unreachable" | "denied" | "refused" | "unimplemented";
  readonly reason: string;
}

export interface WorkloadStreamOptions {
  readonly open: OpenCall;
  readonly clock: Clock;
  readonly random: Random;
  readonly events: WorkloadStreamEvents;
  /** For people: `the Workload API at unix:///run/agent.sock`. */
  readonly where: string;
}

/** What an agent sees at the other end of its socket, and selectors are about. */
function caller(): string {
  const { getuid, getgid, pid } = process;
  return `uid ${getuid?.()}, gid ${getgid?.()}, pid ${pid}`;
}

/** A stream that ended well is opened again at once, unless it had hardly begun. */
const SHORT_LIVED_MS = 1_000;

export class WorkloadStream {
  readonly #options: WorkloadStreamOptions;
  readonly #backoff: Backoff;
  /** While a new answer is wanted soon. */
  readonly #haste: Backoff;
  /** For what no retry mends, only an operator. */
  readonly #patience: Backoff;
  #call: { close(): void } | undefined;
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: WorkloadStreamOptions) {
    this.#options = options;
    const { random } = options;
    this.#backoff = new Backoff({ baseMs: 500, maxMs: 30_000, random });
    this.#haste = new Backoff({ baseMs: 100, maxMs: 500, random });
    this.#patience = new Backoff({ baseMs: 60_000, maxMs: 300_000, random });
    this.#open();
  }

  /** There may be another server now: opens it if it waits to be opened, or was given up. */
  refresh(): void {
    this.#backoff.reset();
    this.#patience.reset();
    if (!this.#call && !this.#closed) this.#open();
  }

  close(): void {
    this.#closed = true;
    this.#stop();
  }

  #open(): void {
    const { open, clock, events } = this.#options;
    this.#stop();
    const openedMs = clock.monotonic();
    let answered = false;
    this.#call = open({
      onMessage: (bytes) => {
        answered = true;
        this.#backoff.reset();
        this.#patience.reset();
        return events.onMessage(bytes);
      },
      onEnd: (status) => {
        this.#call = undefined;
        const brief = clock.monotonic() - openedMs < SHORT_LIVED_MS;
        // One that goes on giving and taking back is asked no faster for it.
        if (answered && !brief) this.#haste.reset();
        // After an answer the deadline is our channel's own, for streams that were quiet for long.
        const well = status.code === GRPC_STATUS.ok ||
          (status.code === GRPC_STATUS.deadlineExceeded && answered);
        if (!well) this.#failed(status);
        else if (answered && !brief) this.#again(0);
        else {
          const next = answered
            ? undefined
            : this.#tell("unreachable", "it ended the stream without a message");
          this.#againAfter(next);
        }
      },
    });
  }

  #failed(status: GrpcStatus): void {
    const said = formatStatus(status);
    switch (status.code) {
      case GRPC_STATUS.unimplemented:
        this.#tell("unimplemented", `it does not offer this (${said})`);
        return;
      case GRPC_STATUS.invalidArgument:
        this.#tell("refused", said);
        return this.#again(this.#patience.next());
      case GRPC_STATUS.permissionDenied:
        return this.#againAfter(
          this.#tell("denied", `nothing is registered for this process: ${caller()} (${said})`),
        );
      default:
        return this.#againAfter(this.#tell("unreachable", said));
    }
  }

  #tell(kind: StreamFailure["kind"], fact: string): "soon" | undefined {
    const reason = `Cannot read from ${this.#options.where}: ${fact}`;
    return this.#options.events.onFailed({ kind, reason });
  }

  #againAfter(next: "soon" | undefined): void {
    this.#again((next === "soon" ? this.#haste : this.#backoff).next());
  }

  #again(delayMs: number): void {
    // Whoever was told of the failure may have closed us, or asked for a look at once.
    if (this.#closed || this.#call) return;
    this.#timer = this.#options.clock.after(delayMs, () => this.#open());
  }

  #stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const call = this.#call;
    this.#call = undefined;
    call?.close();
  }
}
