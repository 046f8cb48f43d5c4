/**
 * An upstream listener: the local app connects here to reach another service. Read
 * {@link OutboundConnection} from top to bottom to follow a connection through its stages.
 *
 * @module
 */

import { type EndpointState, hashText } from "../balance/mod.ts";
import { type Deadline, type ErrorCode, formatAddress } from "../base/mod.ts";
import type { ChainVerdict } from "../identity/mod.ts";
import {
  type AcceptedConnection,
  type Connection,
  type Dial,
  type PresentedPeer,
  Relay,
  type RelayEnd,
  type Strain,
} from "../net/mod.ts";
import { type CallerOwner, SecureCaller } from "./caller.ts";
import { ConnectionRecord, type Ending, endingOf, reportEnd, stopSoon } from "./connection.ts";
import type { Context } from "./context.ts";
import { countFailure, type DialFailure, reportDialFailure } from "./endpoint_failure.ts";
import { Holding } from "./holding.ts";
import type { LiveConnection } from "./live.ts";
import { isRefusal } from "./refusal.ts";
import type { Failure } from "./refusal_sums.ts";
import type { Trust } from "./trust.ts";
import type { Lease, Upstream } from "./upstream.ts";

/** Endpoints that one connection tries before it gives up, and before it goes on to the next target. */
const MAX_ATTEMPTS = 9;
const ATTEMPTS_PER_TARGET = 3;
/** How long a connection waits for its turn to be dialled. */
const MAX_WAIT_MS = 30_000;
/** An end this soon after connecting, with nothing said, is the server's refusal (TLS 1.3). */
const REFUSAL_WINDOW_MS = 1_000;

/** The proof that a server showed an identity of the target it was picked for. */
interface ProvenEndpoint {
  readonly connection: Connection;
  readonly presented: PresentedPeer;
}

export class OutboundConnection implements LiveConnection, CallerOwner {
  readonly record: ConnectionRecord;
  readonly #context: Context;
  readonly #upstream: Upstream;
  /** Where callers must speak TLS. */
  #caller: SecureCaller | undefined;
  #downstream: Connection | undefined;
  #holding: Holding | undefined;
  readonly #tried = new Set<EndpointState>();
  #hash: number | undefined;
  #placed = false;
  #pending = false;
  #leaveWindow: (() => void) | undefined;
  #lastFailure: DialFailure | undefined;
  #lease: Lease | undefined;
  #dial: Dial | undefined;
  #deadline: Deadline | undefined;
  #proven: ProvenEndpoint | undefined;
  #connectedMs = 0;
  #ended = false;

  /** A caller that speaks plainly. */
  static start(context: Context, upstream: Upstream, downstream: Connection): Strain {
    const connection = new OutboundConnection(context, upstream, downstream.remote);
    connection.#downstream = downstream;
    if (!connection.#accept()) return "refused";
    connection.admit(downstream);
    return "none";
  }

  /** A caller that must shake hands. */
  static startSecure(
    context: Context,
    upstream: Upstream,
    accepted: AcceptedConnection,
  ): Strain {
    const connection = new OutboundConnection(context, upstream, accepted.remote);
    const caller = connection.#caller = new SecureCaller(context, upstream, accepted);
    return connection.#accept() ? caller.handshake(connection) : "refused";
  }

  private constructor(context: Context, upstream: Upstream, remote: string) {
    this.#context = context;
    this.#upstream = upstream;
    this.record = new ConnectionRecord({
      direction: "outbound",
      listener: upstream.part.id,
      remote,
      openedMs: context.clock.monotonic(),
    });
    this.record.source = context.facts.service;
    this.record.destination = upstream.part.name;
  }

  get idleTimeoutMs(): number {
    return this.#upstream.part.idleTimeoutMs;
  }

  get lifetimeMs(): number {
    return this.#upstream.part.lifetimeMs;
  }

  /** Before any byte is read; false: there is no place to be had. */
  #accept(): boolean {
    const { processLimit, live } = this.#context;
    const { stats, connections } = this.#upstream;
    stats.opened.add(1);
    stats.active.add(1);
    if (processLimit.full || connections.full) {
      this.#refuse(this.#whyFull);
      return false;
    }
    live.add(this);
    return true;
  }

  get #whyFull(): Failure {
    const { processLimit: { limit, full } } = this.#context;
    if (full) return { code: "overloaded", reason: `the process holds ${limit} connections` };
    const { connections } = this.#upstream;
    return { code: "limit_reached", reason: `limits.max_connections is ${connections.limit}` };
  }

  #takePlace(): boolean {
    const { processLimit } = this.#context;
    if (!processLimit.enter()) return false;
    this.#placed = this.#upstream.connections.enter();
    if (!this.#placed) processLimit.leave();
    return this.#placed;
  }

  /** Waiting to be dialled counts against a limit of its own. */
  admit(downstream: Connection): void {
    this.#downstream = downstream;
    if (!this.#takePlace()) {
      const { code, reason } = this.#whyFull;
      return this.end(code, reason);
    }
    this.#holding = new Holding(downstream, () => this.end("downstream_reset", "closed early"));
    const { pending, needsHash, dials } = this.#upstream;
    this.record.stage = "target";
    this.#pending = pending.enter();
    if (!this.#pending) {
      return this.end("limit_reached", `limits.max_pending_requests is ${pending.limit}`);
    }
    if (needsHash) this.#hash = hashText(hostOf(downstream.remote));
    const wait = this.#context.deadlines.after(MAX_WAIT_MS, () => {
      this.end("endpoint_timed_out", `not dialled for ${MAX_WAIT_MS} ms: too many are before it`);
    });
    this.#deadline = wait;
    this.#leaveWindow = dials.enter(() => {
      wait.cancel();
      this.#pick();
    });
    // It may have ended before there was a turn to leave.
    if (this.#ended) this.#leaveWindow();
  }

  #pick(): void {
    const { clock } = this.#context;
    this.record.stage = "endpoint";
    const trust = this.#trust;
    const fault = trust ? trust.fault(clock.now()) : "no certificate yet";
    if (!trust || fault !== undefined) {
      if (trust?.material.missing.length) this.#upstream.stats.secretsMissing.add(1);
      return this.end("not_ready", fault ?? "no certificate yet");
    }
    const lease = this.#tried.size < MAX_ATTEMPTS
      ? this.#upstream.pick(clock.monotonic(), {
        hash: this.#hash,
        exclude: this.#tried,
        perTarget: ATTEMPTS_PER_TARGET,
      })
      : undefined;
    if (!lease) {
      const { code, reason } = this.#lastFailure ??
        { code: "no_endpoint" as const, reason: `no healthy instance: ${this.#upstream.lack}` };
      return this.end(code, reason);
    }
    this.#tried.add(lease.state);
    this.#lease = lease;
    this.#connect(lease, trust);
  }

  #connect(lease: Lease, trust: Trust): void {
    const { engine, deadlines, clock } = this.#context;
    const { sni, connectTimeoutMs, key } = lease.target.part;
    const { host, port } = lease.state.endpoint;
    const address = { kind: "tcp", host, port } as const;
    const ticketKey = `${key} ${host}:${port}`;
    this.record.stage = "dial";
    this.record.endpoint = formatAddress(address);
    this.#deadline = deadlines.after(connectTimeoutMs, () => {
      this.#dial?.cancel();
      this.#failed(lease, "endpoint_timed_out", `no connection after ${connectTimeoutMs} ms`);
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
        this.#identify(lease, { connection, presented });
      },
      onFailed: (stage, reason) => {
        this.#deadline?.cancel();
        this.#dial = undefined;
        trust.tickets.drop(ticketKey);
        this.#failed(lease, "endpoint_refused", stage === "connect" ? reason : `TLS: ${reason}`);
      },
      onTicket: (ticket) => trust.tickets.keep(ticketKey, { ticket, provenMs }),
    });
  }

  /** The server must prove one of the target's identities, by the facts of now. */
  #identify(lease: Lease, server: ProvenEndpoint): void {
    const { connection, presented } = server;
    const { clock } = this.#context;
    const verdict = this.#trust?.verify(presented, "server", this.record.verified(clock));
    const refusal = this.#faultOf(verdict, lease);
    if (refusal !== undefined) {
      connection.close();
      return this.#failed(lease, "endpoint_untrusted", refusal);
    }
    this.record.resumed = presented.resumed;
    this.record.tlsVersion = presented.version;
    if (presented.resumed) this.#upstream.stats.resumed.add(1);
    this.#relay(server);
  }

  get #trust(): Trust | undefined {
    return this.#context.facts.trusts.of(this.#upstream.part.credentials);
  }

  /** Why the server may not be talked to by the facts of now; undefined: it may. */
  #faultOf(verdict: ChainVerdict | undefined, lease: Lease): string | undefined {
    const trust = this.#trust;
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

  /** Nothing was sent to this one, so the next may be tried. */
  #failed(lease: Lease, code: ErrorCode, reason: string): void {
    if (this.#ended) return;
    this.#release();
    this.#lastFailure = reportDialFailure(lease, { code, reason }, {
      context: this.#context,
      record: this.record,
    });
    this.#pick();
  }

  #relay(server: ProvenEndpoint): void {
    const { live, clock } = this.#context;
    const downstream = this.#downstream;
    if (!downstream) return;
    this.#proven = server;
    this.#leavePending();
    this.record.stage = "relay";
    this.#connectedMs = clock.monotonic();
    this.record.relay = new Relay(downstream, server.connection, {
      ticker: live,
      onOver: (end) => {
        this.#observe(end.kind === "reset" ? end.by : end.first);
        this.#leave(this.#endingOf(end));
      },
    });
    this.#holding?.release();
    this.#holding = undefined;
  }

  /** In TLS 1.3 a client is connected before the server has judged it: passive health looks again. */
  #observe(endedBy: "downstream" | "upstream"): void {
    const lease = this.#lease;
    if (!lease) return;
    const refused = endedBy === "upstream" && this.record.relay?.sentBytes === 0 &&
      this.#context.clock.monotonic() - this.#connectedMs < REFUSAL_WINDOW_MS;
    if (refused) countFailure(lease, { context: this.#context, record: this.record });
    else lease.target.pool.succeeded(lease.state);
  }

  #endingOf(end: RelayEnd): Ending {
    const { relay } = this.record;
    if (!relay || !isRefusal(relay, end)) return endingOf(end);
    return this.#upstream.refusals.ending(end, this.#context.clock.monotonic());
  }

  rejudge(): void {
    if (this.#ended) return;
    if (this.#caller) this.#caller.rejudge(this);
    // Let in when its listener asked nobody to speak TLS.
    else if (this.#upstream.part.listener) {
      return this.end("identity_invalid", "its listener asks for TLS now");
    }
    const server = this.#proven;
    const lease = this.#lease;
    if (this.#ended || !server || !lease) return;
    const since = this.record.sinceVerified(this.#context.clock);
    const verdict = this.#trust?.verifyAgain(server.presented, "server", since);
    const fault = this.#faultOf(verdict, lease);
    if (fault !== undefined) this.end("endpoint_untrusted", fault);
  }

  end(code: ErrorCode, reason: string): void {
    if (this.#ended) return;
    // Left first: closing tells the connection's events, which must find it over.
    this.#leave({ kind: "failed", code, reason, by: this.record.relay && "proxy" });
    if (this.record.relay) stopSoon(this.record.relay, this.#context.deadlines);
    else this.#dropDownstream();
  }

  #dropDownstream(): void {
    if (this.#downstream) this.#downstream.reset();
    else this.#caller?.reset();
  }

  #leave(ending: Ending): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#deadline?.cancel();
    this.#caller?.leave();
    this.#dial?.cancel();
    this.#leavePending();
    this.#release();
    if (this.#placed) {
      this.#context.processLimit.leave();
      this.#upstream.connections.leave();
    }
    this.#context.live.delete(this);
    this.#report(ending);
  }

  #leavePending(): void {
    if (this.#pending) this.#upstream.pending.leave();
    this.#pending = false;
    this.#leaveWindow?.();
  }

  #release(): void {
    if (this.#lease) this.#lease.target.pool.release(this.#lease.state);
    this.#lease = undefined;
  }

  /** No place: nothing was taken, so nothing is given back. */
  #refuse(refusal: Failure): void {
    this.#ended = true;
    this.#dropDownstream();
    this.#report({ kind: "failed", ...refusal });
  }

  #report(ending: Ending): void {
    const { log, sums, clock } = this.#context;
    const { stats } = this.#upstream;
    reportEnd(this.record, ending, { log, stats, sums, nowMs: clock.monotonic() });
  }
}

/** The address without its port: connections of one client stay together. */
function hostOf(remote: string): string {
  return remote.slice(0, Math.max(remote.lastIndexOf(":"), 0));
}
