/**
 * The way to one of a group of targets: waits for its turn, picks an endpoint, dials it, has it prove who it
 * is, and goes on to the next one while nothing was sent. It knows nothing of who wants to go there, so
 * whatever needs a proven endpoint makes an attempt of its own.
 *
 * @module
 */

import type { EndpointState } from "../balance/mod.ts";
import { type Deadline, type ErrorCode, formatAddress } from "../base/mod.ts";
import type { ChainVerdict } from "../identity/mod.ts";
import type { Connection, Dial, PresentedPeer } from "../net/mod.ts";
import type { ConnectionRecord } from "./connection.ts";
import type { Context } from "./context.ts";
import { countFailure, reportDialFailure } from "./endpoint_failure.ts";
import { Presentation } from "./trust/presentation.ts";
import type { Failure } from "./refusal_sums.ts";
import type { Trust } from "./trust/trust.ts";
import type { Lease, Upstream } from "./upstream.ts";

/** Endpoints that one attempt tries before it gives up, and before it goes on to the next target. */
const MAX_TRIES = 9;
const TRIES_PER_TARGET = 3;
/** How long it waits for its turn to be dialled. */
const MAX_WAIT_MS = 30_000;
/** An end this soon after connecting, with nothing said, is the server's refusal (TLS 1.3). */
const REFUSAL_WINDOW_MS = 1_000;
const NONE: ReadonlySet<EndpointState> = new Set();

/** Who wants a way somewhere: told once what came of it, unless it cancels before. */
export interface Dialler<Endpoint> {
  /** Told how far it is. */
  readonly record: Pick<ConnectionRecord, "stage" | "endpoint" | "secured">;
  onDialled(endpoint: Endpoint): void;
  onFailed(code: ErrorCode, reason: string): void;
}

class Proven {
  readonly connection: Connection;
  readonly group: Upstream;
  /** Whose way it was; to be released once. */
  readonly lease: Lease;
  readonly #context: Context;
  readonly #presentation: Presentation;
  readonly #provenMs: number;

  constructor(context: Context, group: Upstream, of: {
    readonly connection: Connection;
    readonly lease: Lease;
    readonly presentation: Presentation;
  }) {
    this.#context = context;
    this.group = group;
    this.connection = of.connection;
    this.lease = of.lease;
    this.#presentation = of.presentation;
    this.#provenMs = context.clock.monotonic();
  }

  /** Why the server may not be talked to any more by the facts of now; undefined: it may. */
  fault(): string | undefined {
    const trust = trustOf(this.group, this.#context);
    return faultOf(this.lease, trust, this.#presentation.judgeAgain(trust));
  }

  /** In TLS 1.3 a client is connected before the server has judged it: passive health looks again. */
  ended(by: "downstream" | "upstream", sentBytes: number): void {
    const { target, state } = this.lease;
    const sinceMs = this.#context.clock.monotonic() - this.#provenMs;
    const isRefused = by === "upstream" && sentBytes === 0 && sinceMs < REFUSAL_WINDOW_MS;
    if (isRefused) countFailure(this.lease, this.#context);
    else target.pool.succeeded(state);
  }

  release(): void {
    release(this.lease);
  }
}

/** The proof that a server showed an identity of the target it was picked for; made here only. */
export type ProvenEndpoint = Proven;

export class Attempt implements Dial {
  readonly #context: Context;
  readonly #group: Upstream;
  readonly #dialler: Dialler<ProvenEndpoint>;
  readonly #hash: number | undefined;
  #tried: Set<EndpointState> | undefined;
  #pending = false;
  #leaveWindow: (() => void) | undefined;
  #deadline: Deadline | undefined;
  #lease: Lease | undefined;
  #dial: Dial | undefined;
  #lastFailure: Failure | undefined;
  #over = false;

  /** `hash`: of what stays with its endpoint where the group's balancing looks at that. */
  constructor(
    group: Upstream,
    dialler: Dialler<ProvenEndpoint>,
    { context, hash }: { readonly context: Context; readonly hash: number | undefined },
  ) {
    this.#context = context;
    this.#group = group;
    this.#dialler = dialler;
    this.#hash = hash;
  }

  /** Waiting to be dialled counts against a limit of its own. */
  start(): void {
    const { pending, dials } = this.#group;
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
      if (trust?.material.missing.length) this.#group.stats.secretsMissing.add(1);
      return this.#fail("not_ready", fault ?? "no certificate yet");
    }
    const exclude = this.#tried ?? NONE;
    const lease = exclude.size < MAX_TRIES
      ? this.#group.pick(clock.monotonic(), {
        hash: this.#hash,
        exclude,
        perTarget: TRIES_PER_TARGET,
      })
      : undefined;
    if (lease) return this.#connect(this.#lease = lease, trust);
    const { code, reason } = this.#lastFailure ??
      { code: "no_endpoint" as const, reason: `no healthy instance: ${this.#group.lack}` };
    this.#fail(code, reason);
  }

  #connect(lease: Lease, trust: Trust): void {
    const { engine, deadlines, clock } = this.#context;
    const { record } = this.#dialler;
    const { sni, connectTimeoutMs, key } = lease.target.part;
    const { host, port } = lease.state.endpoint;
    const address = { kind: "tcp", host, port } as const;
    const ticketKey = `${key} ${host}:${port}`;
    record.stage = "dial";
    record.endpoint = formatAddress(address);
    this.#deadline = deadlines.after(connectTimeoutMs, () => {
      this.#dial?.cancel();
      this.#next(lease, "endpoint_timed_out", `no connection after ${connectTimeoutMs} ms`);
    });
    const nowMs = clock.monotonic();
    const kept = trust.tickets.find(ticketKey, nowMs);
    let provenMs = nowMs;
    this.#dial = engine.dial({ address, tls: trust.client(sni), ticket: kept?.ticket }, {
      onConnected: (connection, presented) => {
        this.#deadline?.cancel();
        this.#dial = undefined;
        if (!presented) return;
        if (kept && presented.resumed) provenMs = kept.provenMs;
        this.#identify(lease, connection, presented);
      },
      onFailed: (stage, reason) => {
        this.#deadline?.cancel();
        trust.tickets.drop(ticketKey);
        this.#next(lease, "endpoint_refused", stage === "connect" ? reason : `TLS: ${reason}`);
      },
      onTicket: (ticket) => trust.tickets.keep(ticketKey, { ticket, provenMs }),
    });
  }

  /** The server must prove one of the target's identities, by the facts of now. */
  #identify(lease: Lease, connection: Connection, presented: PresentedPeer): void {
    const context = this.#context;
    const presentation = new Presentation(presented, "server", context.clock);
    const trust = trustOf(this.#group, context);
    const fault = faultOf(lease, trust, presentation.judge(trust));
    if (fault !== undefined) {
      connection.close();
      return this.#next(lease, "endpoint_untrusted", fault);
    }
    this.#dialler.record.secured(presented, this.#group.stats);
    // Not given back with the rest: it goes to whoever asked.
    this.#lease = undefined;
    this.cancel();
    this.#dialler.onDialled(new Proven(context, this.#group, { connection, lease, presentation }));
  }

  /** Nothing was sent to this one, so the next may be tried. */
  #next(lease: Lease, code: ErrorCode, reason: string): void {
    this.#release();
    this.#tried ??= new Set();
    this.#tried.add(lease.state);
    const { name } = this.#group.part;
    this.#lastFailure = reportDialFailure(lease, { code, reason }, {
      context: this.#context,
      name,
    });
    this.#pick();
  }

  #fail(code: ErrorCode, reason: string): void {
    this.cancel();
    this.#dialler.onFailed(code, reason);
  }

  cancel(): void {
    this.#over = true;
    this.#deadline?.cancel();
    this.#dial?.cancel();
    if (this.#pending) this.#group.pending.leave();
    this.#pending = false;
    this.#leaveWindow?.();
    this.#release();
  }

  #release(): void {
    if (this.#lease) release(this.#lease);
    this.#lease = undefined;
  }
}

function release({ target, state }: Lease): void {
  target.pool.release(state);
}

function trustOf({ part }: Upstream, { facts }: Context): Trust | undefined {
  return facts.trusts.of(part.credentials);
}

/** Why the server may not be talked to; undefined: it may. */
function faultOf(
  lease: Lease,
  trust: Trust | undefined,
  verdict: ChainVerdict | undefined,
): string | undefined {
  if (!trust || !verdict) return "no certificate of our own";
  if (verdict.kind !== "trusted") return verdict.reason;
  const { spiffeUris } = lease.target.part;
  if (trust.namesPeers || spiffeUris.includes(verdict.uri)) return undefined;
  // Configured in so many words: whoever answers is taken.
  if (trust.acceptsAnybody && spiffeUris.length === 0) return undefined;
  const wanted = spiffeUris.join(" or ") ||
    "anybody that was named: there is no identity to ask for";
  return `it is ${verdict.name}, not ${wanted}`;
}
