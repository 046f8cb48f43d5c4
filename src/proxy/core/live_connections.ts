/** The open connections: swept for idleness and age, and judged again after changes. @module */

import { Bag, type BagMember, type Clock, type ErrorCode, type Timer } from "../../base/mod.ts";
import type { Ticker } from "../../net/mod.ts";
import type { ConnectionRecord } from "../observe/connection_record.ts";

/** Limits of the time without a byte, and of the lifetime of a connection; 0: no limit. */
export interface ConnectionLimits {
  readonly idleTimeoutMs: number;
  readonly lifetimeMs: number;
}

export interface LiveConnection extends BagMember {
  readonly record: ConnectionRecord;
  readonly limits: ConnectionLimits;
  /** Why it was ended; absent: it is open, or ended by itself. */
  readonly endCode: ErrorCode | undefined;
  /** Judges the caller by the current snapshot; ends the connection if it is denied. Returns ended requests. */
  rejudge(): number;
  /** Called once a second. */
  sweep(): void;
  /** Takes no new requests; a connection that carries HTTP ends after its last one. */
  drain(): void;
  end(code: ErrorCode, reason: string): void;
}

/** Open connections, and requests, that a change of policy or credentials has ended. */
export interface PublishEffect {
  readonly code: ErrorCode;
  /** The intention that decides about the caller now, and the one that did before; `""`: none. */
  readonly rule: string;
  readonly ruleBefore: string;
  readonly connections: number;
  readonly requests: number;
}

/** Further rules are counted together. */
const EFFECTS_LIMIT = 100;

/** Interval of the sweep, and the precision of idle timeouts. */
const SWEEP_MS = 1_000;

export class LiveConnections implements Ticker {
  tick = 0;
  readonly tickMs = SWEEP_MS;
  readonly #clock: Clock;
  readonly #onSweep: (lateMs: number) => void;
  readonly #connections = new Bag<LiveConnection>();
  #timer: Timer | undefined;
  #dueMs = 0;
  #idle: (() => void) | undefined;

  /**
   * `onSweep`: called once a second, while there are connections. `lateMs`: the time that the event
   * loop was busy when the call was due.
   */
  constructor(clock: Clock, onSweep: (lateMs: number) => void = () => {}) {
    this.#clock = clock;
    this.#onSweep = onSweep;
  }

  get size(): number {
    return this.#connections.size;
  }

  [Symbol.iterator](): Iterator<LiveConnection> {
    return this.#connections.all()[Symbol.iterator]();
  }

  add(connection: LiveConnection): void {
    this.#connections.add(connection);
    if (!this.#timer) this.#sweepLater();
  }

  delete(connection: LiveConnection): void {
    this.#connections.delete(connection);
    if (this.#connections.size === 0) this.#idle?.();
  }

  /** Called after every change of credentials or policy. */
  rejudge(): readonly PublishEffect[] {
    const effects = new Map<string, PublishEffect & { connections: number; requests: number }>();
    for (const connection of this.#connections.all()) {
      const { record } = connection;
      const { rule: ruleBefore } = record;
      const requests = connection.rejudge();
      const { endCode: code = "intention_denied" } = connection;
      const connections = connection.endCode === undefined ? 0 : 1;
      if (connections + requests === 0) continue;
      const { rule } = record;
      let key = JSON.stringify([code, rule, ruleBefore]);
      if (effects.size >= EFFECTS_LIMIT && !effects.has(key)) key = code;
      const sum = effects.get(key);
      if (sum) {
        sum.connections += connections;
        sum.requests += requests;
      } else effects.set(key, { code, rule, ruleBefore, connections, requests });
    }
    return [...effects.values()];
  }

  /** Drains the connections of `direction`; absent: all. */
  drain(direction?: "inbound"): void {
    for (const connection of this.#connections.all()) {
      if (direction === undefined || connection.record.direction === direction) connection.drain();
    }
  }

  endAll(code: ErrorCode, reason: string): void {
    for (const connection of this.#connections.all()) connection.end(code, reason);
  }

  async drained(): Promise<void> {
    if (this.#connections.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
    });
  }

  #sweep(): void {
    this.#timer = undefined;
    this.tick++;
    const nowMs = this.#clock.monotonic();
    this.#onSweep(nowMs - this.#dueMs);
    for (const connection of this.#connections.all()) {
      const { record, limits: { idleTimeoutMs, lifetimeMs } } = connection;
      if (lifetimeMs > 0 && nowMs - record.openedMs >= lifetimeMs) {
        connection.end("lifetime_ended", `open for ${lifetimeMs} ms`);
      } else if (
        idleTimeoutMs > 0 && record.relay &&
        (this.tick - record.relay.activeTick) * SWEEP_MS > idleTimeoutMs
      ) {
        connection.end("idle_timed_out", `no byte for ${idleTimeoutMs} ms`);
      } else connection.sweep();
    }
    if (this.#connections.size > 0) this.#sweepLater();
  }

  #sweepLater(): void {
    this.#dueMs = this.#clock.monotonic() + SWEEP_MS;
    this.#timer = this.#clock.after(SWEEP_MS, () => this.#sweep());
  }
}
