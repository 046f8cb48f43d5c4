/**
 * Listening sockets: bound, told about, tried again, and paused together while the process is short of
 * file descriptors.
 *
 * @module
 */

import { type BindAddress, formatAddress, messageOf } from "../../base/mod.ts";
import { AcceptGate, type AcceptStrain, type CallerKind, type Listener } from "../../net/mod.ts";
import type { Context } from "../core/context.ts";
import type { ListenerFacts } from "./downstream.ts";
import type { ListenerView } from "../observe/view.ts";

/** One listener of ours, whether it listens or could not be bound. */
export interface BoundListener {
  readonly name: string;
  readonly callers: CallerKind;
  readonly key: string;
  readonly bind: BindAddress;
  listener: Listener | undefined;
  error: string;
  /** What was said about the attempt before this one. */
  readonly said: string;
  /** Listens on the address before, until this one does. */
  before: Listener | undefined;
  closed: boolean;
}

const LISTEN_FAILURES = "listen_failures_total";

export class BoundListeners {
  readonly #context: Context;
  readonly #gate: AcceptGate;

  /** `workers`: data paths in this process. */
  constructor(context: Context, workers: number) {
    this.#context = context;
    const { clock, log, stats } = context;
    const paused = stats.gauge(
      "accept_paused",
      "1 for each data worker that accepts no connections because file descriptors run short",
    );
    this.#gate = new AcceptGate({
      clock,
      workers,
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

  /** To be asked once for each connection that came in. False: it must be reset. */
  admits({ callers }: BoundListener): boolean {
    return this.#gate.opened(callers);
  }

  /** What one that came there did: others have their turn before the next ones. */
  strained({ listener }: BoundListener, strain: AcceptStrain): void {
    if (strain !== "none" && listener) this.#gate.strained(listener, strain);
  }

  /**
   * A door for `bind` in place of `current`, which goes on until the new one is open, unless it is in its
   * way: one that listens there for callers of another kind.
   */
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
    const door: BoundListener = {
      name,
      callers,
      key,
      bind,
      listener: undefined,
      error: "",
      said: current?.error ?? "",
      before: current?.listener ?? current?.before,
      closed: false,
    };
    if (current) current.closed = true;
    return door;
  }

  /** Binds it; a failure is kept in the door, counted and logged. */
  async open(door: BoundListener, listen: () => Promise<Listener>): Promise<void> {
    const { log, stats } = this.#context;
    try {
      const listener = await listen();
      // Removed, replaced or drained while it was being bound.
      if (door.closed) return listener.close();
      door.listener = listener;
      this.#gate.add(listener, door.callers);
      if (door.before) this.#close(door.before);
      door.before = undefined;
      log.info("listener started", {
        listener: door.name,
        address: formatAddress(listener.address),
      });
    } catch (error) {
      door.error = messageOf(error);
      stats.counter(
        LISTEN_FAILURES,
        "Attempts to bind a listener that failed; it is tried again every second",
        {
          listener: door.name,
        },
      ).add(1);
      // Tried every second; the same again is no news.
      const level = door.said === door.error ? "debug" : "error";
      log[level]("listener failed; tried again every second", {
        listener: door.name,
        error: door.error,
      });
    }
  }

  /** Stops accepting there; open connections live on. */
  close(door: BoundListener): void {
    door.closed = true;
    for (const listener of [door.listener, door.before]) if (listener) this.#close(listener);
  }

  /** Nobody declares a listener of that name any more. */
  forget(name: string): void {
    this.#context.stats.remove(LISTEN_FAILURES, { listener: name });
  }

  /** Ends the looking after, too. */
  end(): void {
    this.#gate.close();
  }

  #close(listener: Listener): void {
    this.#gate.remove(listener);
    listener.close();
  }
}

/** Open on this address, or on the way to it. */
export function isOpenAt(
  door: BoundListener | undefined,
  bind: BindAddress,
): door is BoundListener {
  return door !== undefined && door.key === formatAddress(bind) &&
    (door.listener !== undefined || door.error === "");
}

/** `front`: what it leads to; absent: an upstream's that is not opened. */
export function viewOf(
  door: BoundListener,
  { draining, nowMs, front }: {
    readonly draining: boolean;
    readonly nowMs: number;
    readonly front?: ListenerFacts | undefined;
  },
): ListenerView {
  return {
    name: door.name,
    direction: front?.direction ?? "outbound",
    address: formatAddress(door.listener?.address ?? door.bind),
    protocol: front?.http?.protocol ?? "tcp",
    state: door.listener ? draining ? "draining" : "listening" : "failed",
    error: door.error,
    fault: front?.fault ?? "",
    warnings: front?.stats.warnings(nowMs) ?? [],
    connections: front?.stats.active.value ?? 0,
  };
}
