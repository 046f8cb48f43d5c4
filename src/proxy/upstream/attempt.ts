/** One attempt to connect to a group of targets, whichever caller it is for. @module */

import type { EndpointState } from "../../balance/mod.ts";
import type { Deadline, ErrorCode } from "../../base/mod.ts";
import type { Dial } from "../../net/mod.ts";
import type { UpstreamContext } from "../core/context.ts";
import { type EndpointDialHandler, trustOf } from "./endpoint_dial.ts";
import { addressOf, reportDialFailure } from "./endpoint_failure.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import type { TrustContext } from "../trust/trust_context.ts";
import { giveBack, type Lease, type TargetGroup } from "./target_group.ts";

/** Endpoints that one attempt tries before it gives up, and before it goes on to the next target. */
const MAX_TRIES = 9;
const TRIES_PER_TARGET = 3;
/** How long an attempt waits for its turn to dial. */
const MAX_WAIT_MS = 30_000;
const NONE: ReadonlySet<EndpointState> = new Set();

/** Receives the result of an attempt, once, unless the attempt is cancelled before. */
export interface AttemptHandler<Connection>
  extends Pick<EndpointDialHandler<Connection>, "record" | "onFailed"> {
  /** `lease`: the lease of the picked endpoint, if one was picked; the handler releases it once. */
  onDialled(connection: Connection, lease?: Lease): void;
}

/** How an attempt connects to the picked endpoint: by a dial, or a connection that is already open. */
export type Connect<Connection> = (
  lease: Lease,
  trust: TrustContext,
  handler: EndpointDialHandler<Connection>,
) => Dial;

interface AttemptOptions<Connection> {
  readonly context: UpstreamContext;
  /** Used if the group balances by hash. */
  readonly hash: number | undefined;
  /** Endpoints not picked while there are others. */
  readonly avoid?: ReadonlySet<EndpointState> | undefined;
  /** An endpoint that was picked already; the attempt releases its lease. */
  readonly first?: Lease | undefined;
  readonly connect: Connect<Connection>;
}

export class Attempt<Connection> implements Dial {
  readonly #group: TargetGroup;
  readonly #handler: AttemptHandler<Connection>;
  readonly #options: AttemptOptions<Connection>;
  #tried: Set<EndpointState> | undefined;
  #pending = false;
  #leaveWindow: (() => void) | undefined;
  #deadline: Deadline | undefined;
  #lease: Lease | undefined;
  #dial: Dial | undefined;
  #lastFailure: RefusalReason | undefined;
  #lastTried = "";
  #over = false;

  constructor(
    group: TargetGroup,
    handler: AttemptHandler<Connection>,
    options: AttemptOptions<Connection>,
  ) {
    this.#group = group;
    this.#handler = handler;
    this.#options = options;
    this.#lease = options.first;
  }

  /** Attempts that wait to dial have a limit of their own. */
  start(): void {
    const { upstream: { pending }, dials } = this.#group;
    this.#handler.record.stage = "target";
    this.#pending = pending.enter();
    if (!this.#pending) {
      return this.#fail("limit_reached", `limits.max_pending_requests is ${pending.limit}`);
    }
    const wait = this.#deadline = this.#options.context.deadlines.after(MAX_WAIT_MS, () => {
      const reason = `not dialled for ${MAX_WAIT_MS} ms: too many are before it`;
      this.#fail("endpoint_timed_out", reason);
    });
    this.#leaveWindow = dials.enter(() => {
      wait.cancel();
      this.#pick();
    });
    // The attempt may have ended within `enter`.
    if (this.#over) this.#leaveWindow();
  }

  #pick(): void {
    const { context, hash, avoid } = this.#options;
    this.#handler.record.stage = "endpoint";
    const trust = trustOf(this.#group, context);
    const fault = trust ? trust.fault(context.clock.now()) : "no certificate yet";
    if (!trust || fault !== undefined) {
      if (trust?.material.missing.length) this.#group.upstream.stats.metrics.secretsMissing.add(1);
      return this.#fail("not_ready", fault ?? "no certificate yet");
    }
    const exclude = this.#tried ?? NONE;
    const options = { hash, exclude, avoid, perTarget: TRIES_PER_TARGET };
    const mayTry = exclude.size < MAX_TRIES;
    const lease = this.#lease ??
      (mayTry ? this.#group.pick(context.clock.monotonic(), options) : undefined);
    if (lease) return this.#goTo(this.#lease = lease, trust);
    const { code, reason } = this.#lastFailure ??
      { code: "no_endpoint" as const, reason: `no healthy instance: ${this.#group.lack}` };
    this.#fail(code, reason);
  }

  #goTo(lease: Lease, trust: TrustContext): void {
    const dial = this.#options.connect(lease, trust, {
      record: this.#handler.record,
      onDialled: (connection) => {
        this.#dial = undefined;
        // The lease goes to the handler and is not released here.
        this.#lease = undefined;
        // Before the next attempt has its turn: it would get the same kept connection, still unused.
        this.#handler.onDialled(connection, lease);
        this.cancel();
      },
      onFailed: (code, reason) => {
        this.#dial = undefined;
        this.#next(lease, code, reason);
      },
    });
    // The handler may have been called within `connect`, and the dial may have been replaced.
    if (this.#lease === lease) this.#dial = dial;
  }

  /** Nothing was sent to the failed endpoint, so the next may be tried. */
  #next(lease: Lease, code: ErrorCode, reason: string): void {
    this.#release();
    (this.#tried ??= new Set()).add(lease.state);
    this.#lastTried = addressOf(lease);
    lease.target.stats?.failed(code);
    const { context } = this.#options;
    const { name } = this.#group.upstream.part;
    this.#lastFailure = reportDialFailure(lease, { code, reason }, { context, name });
    this.#pick();
  }

  #fail(code: ErrorCode, reason: string): void {
    this.cancel();
    this.#handler.onFailed(code, reason, this.#lastTried);
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
