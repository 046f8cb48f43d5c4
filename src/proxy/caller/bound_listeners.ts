/** Listening sockets: bound, retried, and paused while file descriptors run short. @module */

import { type BindAddress, formatAddress, messageOf } from "../../base/mod.ts";
import { AcceptGate, type AcceptStrain, type CallerKind, type Listener } from "../../net/mod.ts";
import type { UpstreamContext } from "../core/context.ts";
import type { ListenerFacts } from "./session.ts";
import type { ListenerView } from "../observe/view.ts";

/** A listener that is bound, is being bound, or could not be. */
export interface BoundListener {
  readonly name: string;
  readonly callers: CallerKind;
  readonly key: string;
  readonly bind: BindAddress;
  listener: Listener | undefined;
  error: string;
  /** Error of the attempt before, which was logged. */
  readonly lastError: string;
  /** Listens on the previous address until this one is bound. */
  previous: Listener | undefined;
  closed: boolean;
}

const LISTEN_FAILURES = "listen_failures_total";

export class BoundListeners {
  readonly #context: UpstreamContext;
  readonly #gate: AcceptGate;

  /** `workers`: data paths in this process. `held`: nothing is accepted before {@link accept}. */
  constructor(
    context: UpstreamContext,
    { workers, held }: { readonly workers: number; readonly held: boolean },
  ) {
    this.#context = context;
    const { clock, log, stats } = context;
    const paused = stats.gauge(
      "accept_paused",
      "1 for each data worker that accepts no connections because file descriptors run short",
    );
    this.#gate = new AcceptGate({
      clock,
      workers,
      held,
      onChange: (pausedFor, headroom) => {
        paused.set(pausedFor === "nobody" ? 0 : 1);
        const fields = { paused_for: pausedFor, descriptors_left: headroom };
        if (pausedFor === "nobody") log.info("accepting again", fields);
        else log.warn("accepting paused: file descriptors run short", fields);
      },
      onLost: (listener, error) =>
        log.error("listener not resumed; it is tried again", {
          address: formatAddress(listener.address),
          error: messageOf(error),
        }),
    });
  }

  /** Ends the hold of the start. */
  accept(): void {
    this.#gate.release();
  }

  /** Called once for each accepted connection. False: it must be reset. */
  admits({ callers }: BoundListener): boolean {
    return this.#gate.opened(callers);
  }

  /** After a connection that cost much: open connections are served before more are accepted. */
  strained({ listener }: BoundListener, strain: AcceptStrain): void {
    if (strain !== "none" && listener) this.#gate.strained(listener, strain);
  }

  /** A listener for `bind`. `current` goes on until it is bound, unless both want the same address. */
  replace(
    name: string,
    bind: BindAddress,
    current: BoundListener | undefined,
    callers: CallerKind,
  ): BoundListener {
    const key = formatAddress(bind);
    if (current?.listener && current.key === key) {
      this.#close(current.listener);
      current.listener = undefined;
    }
    const bound: BoundListener = {
      name,
      callers,
      key,
      bind,
      listener: undefined,
      error: "",
      lastError: current?.error ?? "",
      previous: current?.listener ?? current?.previous,
      closed: false,
    };
    if (current) current.closed = true;
    return bound;
  }

  /** Binds it. A failure is kept, counted and logged. */
  async open(bound: BoundListener, listen: () => Promise<Listener>): Promise<void> {
    const { log, stats } = this.#context;
    try {
      const listener = await listen();
      // It was removed, replaced or drained meanwhile.
      if (bound.closed) return listener.close();
      bound.listener = listener;
      this.#gate.add(listener, bound.callers);
      if (bound.previous) this.#close(bound.previous);
      bound.previous = undefined;
      const address = formatAddress(listener.address);
      log.info("listener started", { listener: bound.name, address });
    } catch (error) {
      bound.error = messageOf(error);
      const help = "Attempts to bind a listener that failed; it is tried again every second";
      stats.counter(LISTEN_FAILURES, help, { listener: bound.name }).add(1);
      // Tried every second: the same error is logged once.
      const level = bound.lastError === bound.error ? "debug" : "error";
      const { name, error: fault } = bound;
      log[level]("listener failed; tried again every second", { listener: name, error: fault });
    }
  }

  /** Stops accepting; open connections live on. `handedOver`: another process goes on accepting. */
  close(bound: BoundListener, options?: { readonly handedOver: boolean }): void {
    bound.closed = true;
    for (const listener of [bound.listener, bound.previous]) {
      if (listener) this.#close(listener, options);
    }
  }

  /** A listener of that name is not declared any more. */
  forget(name: string): void {
    this.#context.stats.remove(LISTEN_FAILURES, { listener: name });
  }

  /** Ends the watch on file descriptors. */
  end(): void {
    this.#gate.close();
  }

  #close(listener: Listener, options?: { readonly handedOver: boolean }): void {
    this.#gate.remove(listener);
    listener.close(options);
  }
}

/** Bound to this address, or being bound. */
export function isOpenAt(
  bound: BoundListener | undefined,
  bind: BindAddress,
): bound is BoundListener {
  return bound !== undefined && bound.key === formatAddress(bind) &&
    (bound.listener !== undefined || bound.error === "");
}

/** `listener`: what is bound; absent: an upstream that cannot be opened. */
export function viewOf(
  bound: BoundListener,
  { draining, nowMs, listener }: {
    readonly draining: boolean;
    readonly nowMs: number;
    readonly listener?: ListenerFacts | undefined;
  },
): ListenerView {
  return {
    name: bound.name,
    direction: listener?.direction ?? "outbound",
    address: formatAddress(bound.listener?.address ?? bound.bind),
    protocol: listener?.http?.protocol ?? "tcp",
    state: bound.listener ? draining ? "draining" : "listening" : "failed",
    error: bound.error,
    fault: listener?.fault ?? "",
    warnings: listener?.stats.warnings(nowMs) ?? [],
    connections: listener?.stats.metrics.active.value ?? 0,
  };
}
