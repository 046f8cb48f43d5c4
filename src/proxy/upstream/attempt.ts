/**
 * The way to one of a group of targets: waits for its turn, picks an endpoint, has it connected to, and
 * goes on to the next one while nothing was sent. It knows nothing of who wants to go there, so whatever
 * needs a proven endpoint makes an attempt of its own.
 *
 * @module
 */

import type { EndpointState } from "../../balance/mod.ts";
import type { Deadline, ErrorCode } from "../../base/mod.ts";
import type { Dial } from "../../net/mod.ts";
import type { Context } from "../core/context.ts";
import { type EndpointDialHandler, trustOf } from "./endpoint_dial.ts";
import { addressOf, reportDialFailure } from "./endpoint_failure.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import type { TrustContext } from "../trust/trust_context.ts";
import { giveBack, type Lease, type TargetGroup } from "./target_group.ts";

/** Endpoints that one attempt tries before it gives up, and before it goes on to the next target. */
const MAX_TRIES = 9;
const TRIES_PER_TARGET = 3;
/** How long it waits for its turn to be dialled. */
const MAX_WAIT_MS = 30_000;
const NONE: ReadonlySet<EndpointState> = new Set();

/** Who wants a way somewhere: told once what came of it, unless it cancels before. */
export interface AttemptHandler<Way> extends Pick<EndpointDialHandler<Way>, "record" | "onFailed"> {
  /** `lease`: of the endpoint that it leads to, if one was picked; to be given back once. */
  onDialled(way: Way, lease?: Lease): void;
}

/** How an attempt gets to the endpoint that it picked: by a dial, or something that is there already. */
export type Connect<Way> = (
  lease: Lease,
  trust: TrustContext,
  dialler: EndpointDialHandler<Way>,
) => Dial;

export class Attempt<Way> implements Dial {
  readonly #context: Context;
  readonly #group: TargetGroup;
  readonly #dialler: AttemptHandler<Way>;
  readonly #connect: Connect<Way>;
  readonly #hash: number | undefined;
  readonly #avoid: ReadonlySet<EndpointState> | undefined;
  #tried: Set<EndpointState> | undefined;
  #pending = false;
  #leaveWindow: (() => void) | undefined;
  #deadline: Deadline | undefined;
  #lease: Lease | undefined;
  #dial: Dial | undefined;
  #lastFailure: RefusalReason | undefined;
  #lastTried = "";
  #over = false;

  /**
   * `hash`: of what stays with its endpoint where the group's balancing looks at that; `avoid`: passed
   * over while there are others; `first`: picked already, and given back here.
   */
  constructor(
    group: TargetGroup,
    dialler: AttemptHandler<Way>,
    { context, hash, avoid, first, connect }: {
      readonly context: Context;
      readonly hash: number | undefined;
      readonly avoid?: ReadonlySet<EndpointState> | undefined;
      readonly first?: Lease | undefined;
      readonly connect: Connect<Way>;
    },
  ) {
    this.#context = context;
    this.#group = group;
    this.#dialler = dialler;
    this.#hash = hash;
    this.#avoid = avoid;
    this.#lease = first;
    this.#connect = connect;
  }

  /** Waiting to be dialled counts against a limit of its own. */
  start(): void {
    const { upstream: { pending }, dials } = this.#group;
    this.#dialler.record.stage = "target";
    this.#pending = pending.enter();
    if (!this.#pending) {
      return this.#fail("limit_reached", `limits.max_pending_requests is ${pending.limit}`);
    }
    const wait = this.#deadline = this.#context.deadlines.after(MAX_WAIT_MS, () => {
      const reason = `not dialled for ${MAX_WAIT_MS} ms: too many are before it`;
      this.#fail("endpoint_timed_out", reason);
    });
    this.#leaveWindow = dials.enter(() => {
      wait.cancel();
      this.#pick();
    });
    // It may have ended before there was a turn to leave.
    if (this.#over) this.#leaveWindow();
  }

  #pick(): void {
    const { clock } = this.#context;
    this.#dialler.record.stage = "endpoint";
    const trust = trustOf(this.#group, this.#context);
    const fault = trust ? trust.fault(clock.now()) : "no certificate yet";
    if (!trust || fault !== undefined) {
      if (trust?.material.missing.length) this.#group.upstream.stats.secretsMissing.add(1);
      return this.#fail("not_ready", fault ?? "no certificate yet");
    }
    const exclude = this.#tried ?? NONE;
    const lease = this.#lease ?? (exclude.size < MAX_TRIES
      ? this.#group.pick(clock.monotonic(), {
        hash: this.#hash,
        exclude,
        avoid: this.#avoid,
        perTarget: TRIES_PER_TARGET,
      })
      : undefined);
    if (lease) return this.#goTo(this.#lease = lease, trust);
    const { code, reason } = this.#lastFailure ??
      { code: "no_endpoint" as const, reason: `no healthy instance: ${this.#group.lack}` };
    this.#fail(code, reason);
  }

  #goTo(lease: Lease, trust: TrustContext): void {
    const dial = this.#connect(lease, trust, {
      record: this.#dialler.record,
      onDialled: (way) => {
        this.#dial = undefined;
        // Not given back with the rest: it goes to whoever asked.
        this.#lease = undefined;
        this.cancel();
        this.#dialler.onDialled(way, lease);
      },
      onFailed: (code, reason) => {
        this.#dial = undefined;
        this.#next(lease, code, reason);
      },
    });
    // What could be told at once has been, and there may be another by now.
    if (this.#lease === lease) this.#dial = dial;
  }

  /** Nothing was sent to this one, so the next may be tried. */
  #next(lease: Lease, code: ErrorCode, reason: string): void {
    this.#release();
    this.#tried ??= new Set();
    this.#tried.add(lease.state);
    this.#lastTried = addressOf(lease);
    const { name } = this.#group.upstream.part;
    lease.target.stats?.failed(code);
    this.#lastFailure = reportDialFailure(lease, { code, reason }, {
      context: this.#context,
      name,
    });
    this.#pick();
  }

  #fail(code: ErrorCode, reason: string): void {
    this.cancel();
    this.#dialler.onFailed(code, reason, this.#lastTried);
  }

  cancel(): void {
    this.#over = true;
    this.#deadline?.cancel();
    this.#dial?.cancel();
    if (this.#pending) this.#group.upstream.pending.leave();
    this.#pending = false;
    this.#leaveWindow?.();
    this.#release();
  }

  #release(): void {
    if (this.#lease) giveBack(this.#lease);
    this.#lease = undefined;
  }
}
