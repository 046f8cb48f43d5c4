/**
 * What is said about a server that does not answer: a line for what is new, quietly while it may pass,
 * once loudly when it does not (envoy.md 1.6).
 *
 * @module
 */

import type { Clock, Log } from "../../base/mod.ts";
import { formatStatus, type GrpcStatus } from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";

/** What passes by itself more often than not. */
const PASSING: readonly number[] = [
  GRPC_STATUS.unavailable,
  GRPC_STATUS.deadlineExceeded,
  GRPC_STATUS.resourceExhausted,
];
const PERSISTENT_MS = 30_000;
/** Distinct faults of one server that are told until it answers again. */
const TOLD_LIMIT = 20;

export class ServerHealth {
  readonly #clock: Clock;
  readonly #log: Log;
  #failingSinceMs: number | undefined;
  /** Streams of several names may fail in turn, each for a reason of its own. */
  readonly #told = new Set<string>();

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  reached(): void {
    if (this.#failingSinceMs === undefined) return;
    if (this.#told.size > 0) this.#log.info("sds server answers again");
    this.#failingSinceMs = undefined;
    this.#told.clear();
  }

  /** `name`: of the only secret that it is about. */
  failed(status: GrpcStatus, name?: string): void {
    const nowMs = this.#clock.monotonic();
    this.#failingSinceMs ??= nowMs;
    const reason = formatStatus(status);
    const about = { reason, ...(name !== undefined && { name }) };
    const fault = JSON.stringify(about);
    const forMs = nowMs - this.#failingSinceMs;
    const passing = PASSING.includes(status.code);
    const loud = !passing || forMs >= PERSISTENT_MS;
    // One persistent fault in many words is one line.
    const known = this.#told.has(fault) || (passing && this.#told.size > 0);
    if (!loud || known || this.#told.size >= TOLD_LIMIT) {
      this.#log.debug("sds stream failed", about);
      return;
    }
    this.#told.add(fault);
    const fields = { ...about, ...(forMs > 0 && { failing_ms: Math.round(forMs) }) };
    this.#log.warn("sds stream failed", fields);
  }
}
