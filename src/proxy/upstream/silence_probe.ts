/**
 * Probes an endpoint that does not answer. A hanging process keeps its connections, since the kernel goes on
 * acknowledging. So an endpoint with unanswered requests gets a separate handshake, which carries nothing. A
 * slow application passes it at once, because its sidecar answers.
 *
 * @module
 */

import type { Deadline } from "../../base/mod.ts";
import type { UpstreamContext } from "../core/context.ts";
import { EndpointDial, trustOf } from "./endpoint_dial.ts";
import { addressOf, countSilence } from "./endpoint_failure.ts";
import type { Lease, TargetGroup } from "./target_group.ts";

/** How long the handshake may take. */
const ANSWER_MS = 3_000;
/** Minimum interval of probes while the endpoint answers. */
const AGAIN_MS = 30_000;

export interface SilenceProbeOptions {
  readonly context: UpstreamContext;
  readonly protocols: readonly string[];
  /** The endpoint hangs and was ejected, and there are others. */
  onHung(reason: string): void;
}

/** The probe of one endpoint. */
export class SilenceProbe {
  readonly #group: TargetGroup;
  readonly #lease: Lease;
  readonly #options: SilenceProbeOptions;
  #dial: EndpointDial | undefined;
  #deadline: Deadline | undefined;
  #nextMs = -Infinity;

  /** The lease only identifies the endpoint; a probe is not counted as use of it. */
  constructor(group: TargetGroup, lease: Lease, options: SilenceProbeOptions) {
    this.#group = group;
    this.#lease = lease;
    this.#options = options;
  }

  /** Starts a probe, unless there was one lately. */
  start(): void {
    const { context, protocols } = this.#options;
    const { clock, deadlines, log } = context;
    const nowMs = clock.monotonic();
    const trust = trustOf(this.#group, context);
    // Requests avoid an ejected endpoint already.
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
      // Any answer shows that the endpoint lives; the next dial detects a closed port.
      onFailed: (code) => code === "endpoint_timed_out" ? this.#hangs() : this.stop(),
    }, { context, trust, protocols });
  }

  #hangs(): void {
    const { context, onHung } = this.#options;
    this.stop();
    const reason = `it hangs: requests and a handshake were not answered for ${ANSWER_MS} ms`;
    const isEjected = countSilence(this.#lease, reason, context);
    const { pool } = this.#lease.target;
    // The only endpoint may continue later, and then answers its requests.
    if (isEjected && pool.usableCount(context.clock.monotonic()) > 0) onHung(reason);
  }

  /** Cancels the probe. */
  stop(): void {
    this.#deadline?.cancel();
    this.#dial?.cancel();
    this.#dial = undefined;
  }
}
