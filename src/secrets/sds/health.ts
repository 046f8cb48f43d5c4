/**
 * What is said about a server that does not answer: a line for what is new, quietly while it may pass,
 * once loudly when it does not (envoy.md 1.6).
 *
 * @module
 */

import type { Clock, Log } from "../../base/mod.ts";
import {
  formatStatus,
  GRPC_DEADLINE_EXCEEDED,
  GRPC_RESOURCE_EXHAUSTED,
  GRPC_UNAVAILABLE,
  type GrpcStatus,
} from "../grpc/mod.ts";

/** What passes by itself more often than not. */
const PASSING: readonly number[] = [
  GRPC_UNAVAILABLE,
  GRPC_DEADLINE_EXCEEDED,
  GRPC_RESOURCE_EXHAUSTED,
];
const PERSISTENT_MS = 30_000;

export class ServerHealth {
  readonly #clock: Clock;
  readonly #log: Log;
  #failingSinceMs: number | undefined;
  #told = "";
  #warned = false;

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  reached(): void {
    if (this.#failingSinceMs === undefined) return;
    if (this.#warned) this.#log.info("sds server answers again");
    this.#failingSinceMs = undefined;
    this.#told = "";
    this.#warned = false;
  }

  failed(status: GrpcStatus): void {
    const nowMs = this.#clock.monotonic();
    this.#failingSinceMs ??= nowMs;
    const reason = formatStatus(status);
    const forMs = nowMs - this.#failingSinceMs;
    const loud = !PASSING.includes(status.code) || forMs >= PERSISTENT_MS;
    if (loud && !(this.#warned && this.#told === reason)) {
      const fields = { reason, ...(forMs > 0 && { failing_ms: Math.round(forMs) }) };
      // One persistent fault in many words is one line.
      if (this.#warned && PASSING.includes(status.code)) {
        this.#log.debug("sds stream failed", fields);
      } else this.#log.warn("sds stream failed", fields);
      this.#warned = true;
    } else this.#log.debug("sds stream failed", { reason });
    this.#told = reason;
  }
}
