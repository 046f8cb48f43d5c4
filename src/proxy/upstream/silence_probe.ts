/**
 * Is an endpoint that says nothing still there? A process that hangs keeps its connections: the kernel
 * goes on acknowledging what comes. So an endpoint whose requests stay unanswered is asked for a handshake
 * that carries nothing. A slow application answers that at once, as its sidecar does it.
 *
 * @module
 */

import type { Deadline } from "../../base/mod.ts";
import type { Context } from "../core/context.ts";
import { EndpointDial, trustOf } from "./endpoint_dial.ts";
import { addressOf, countSilence } from "./endpoint_failure.ts";
import type { Lease, TargetGroup } from "./target_group.ts";

/** How long the handshake may take. */
const ANSWER_MS = 3_000;
/** Not asked more often while it answers. */
const AGAIN_MS = 30_000;

export interface SilenceProbeOptions {
  readonly context: Context;
  readonly protocols: readonly string[];
  /** It hangs and was ejected, and there are others. */
  onHung(reason: string): void;
}

/** Of one endpoint. */
export class SilenceProbe {
  readonly #group: TargetGroup;
  readonly #lease: Lease;
  readonly #options: SilenceProbeOptions;
  #dial: EndpointDial | undefined;
  #deadline: Deadline | undefined;
  #nextMs = -Infinity;

  /** The lease is only named: it counts as no use of the endpoint. */
  constructor(group: TargetGroup, lease: Lease, options: SilenceProbeOptions) {
    this.#group = group;
    this.#lease = lease;
    this.#options = options;
  }

  /** Asks, unless it was asked lately. */
  ask(): void {
    const { context, protocols } = this.#options;
    const { clock, deadlines, log } = context;
    const nowMs = clock.monotonic();
    const trust = trustOf(this.#group, context);
    // What is ejected already has been moved away from.
    if (nowMs < this.#nextMs || !trust || this.#lease.state.ejected) return;
    this.#nextMs = nowMs + AGAIN_MS;
    log.debug("endpoint is silent", { endpoint: addressOf(this.#lease) });
    this.#deadline = deadlines.after(ANSWER_MS, () => this.#hangs());
    this.#dial = new EndpointDial(this.#group, this.#lease, {
      record: { stage: "dial", endpoint: "", secured: () => {} },
      onDialled: ({ stream }) => {
        this.stop();
        stream.close();
      },
      // Whatever it says, it says something; that nobody listens is found out by the next dial.
      onFailed: (code) => code === "endpoint_timed_out" ? this.#hangs() : this.stop(),
    }, { context, trust, protocols });
  }

  #hangs(): void {
    const { context, onHung } = this.#options;
    this.stop();
    const reason = `it hangs: requests and a handshake were not answered for ${ANSWER_MS} ms`;
    const isEjected = countSilence(this.#lease, reason, context);
    const { pool } = this.#lease.target;
    // The only one may go on later, and then answers what it was asked.
    if (isEjected && pool.usableCount(context.clock.monotonic()) > 0) onHung(reason);
  }

  /** Waits for no answer any more. */
  stop(): void {
    this.#deadline?.cancel();
    this.#dial?.cancel();
    this.#dial = undefined;
  }
}
