/**
 * An upstream listener: the local app connects here to reach another service. Read
 * {@link OutboundConnection} from top to bottom to follow a connection through its stages.
 *
 * @module
 */

import { type EndpointState, hashText } from "../balance/mod.ts";
import { type Deadline, type ErrorCode, formatAddress } from "../base/mod.ts";
import {
  type AcceptedConnection,
  type Connection,
  type Dial,
  type PresentedPeer,
  Relay,
} from "../net/mod.ts";
import { ConnectionRecord, type Ending, endingOf, reportEnd, stopSoon } from "./connection.ts";
import type { Context } from "./context.ts";
import { Holding } from "./holding.ts";
import type { LiveConnection } from "./live.ts";
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

export class OutboundConnection implements LiveConnection {
  readonly record: ConnectionRecord;
  readonly #context: Context;
  readonly #upstream: Upstream;
  /** Before its handshake, where callers must speak TLS. */
  readonly #accepted: AcceptedConnection | undefined;
  #downstream: Connection | undefined;
  #holding: Holding | undefined;
  /** What a caller showed that spoke TLS. */
  #caller: PresentedPeer | undefined;
  readonly #tried = new Set<EndpointState>();
  #hash: number | undefined;
  #pending = false;
  #leaveWindow: (() => void) | undefined;
  #lastFailure: { readonly code: ErrorCode; readonly reason: string } | undefined;
  #lease: Lease | undefined;
  #dial: Dial | undefined;
  #deadline: Deadline | undefined;
  #proven: ProvenEndpoint | undefined;
  #connectedMs = 0;
  #ended = false;

  /** A caller that speaks plainly. */
  static start(context: Context, upstream: Upstream, downstream: Connection): void {
    new OutboundConnection(context, upstream, downstream).#accept(downstream);
  }

  /** A caller that must shake hands. */
  static startSecure(context: Context, upstream: Upstream, accepted: AcceptedConnection): void {
    new OutboundConnection(context, upstream, accepted).#accept(undefined);
  }

  private constructor(
    context: Context,
    upstream: Upstream,
    downstream: Connection | AcceptedConnection,
  ) {
    this.#context = context;
    this.#upstream = upstream;
    this.#accepted = "secure" in downstream ? downstream : undefined;
    this.record = new ConnectionRecord({
      direction: "outbound",
      listener: upstream.part.id,
      remote: downstream.remote,
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

  #accept(plain: Connection | undefined): void {
    this.#downstream = plain;
    const { processLimit, live } = this.#context;
    const { stats, connections } = this.#upstream;
    stats.opened.add(1);
    stats.active.add(1);
    if (!processLimit.enter()) {
      return this.#refuse("overloaded", `the process holds ${processLimit.limit} connections`);
    }
    if (!connections.enter()) {
      processLimit.leave();
      return this.#refuse("limit_reached", `limits.max_connections is ${connections.limit}`);
    }
    live.add(this);
    if (plain) this.#wait(plain);
    else this.#handshake();
  }

  #handshake(): void {
    const { deadlines, clock } = this.#context;
    const { listener } = this.#upstream.part;
    const accepted = this.#accepted;
    this.record.stage = "handshake";
    const trust = this.#callersTrust;
    const fault = trust ? trust.fault(clock.now()) : "no certificate yet";
    if (!listener || !accepted || !trust || fault !== undefined) {
      if (trust?.material.missing.length) this.#upstream.stats.secretsMissing.add(1);
      return this.end("not_ready", fault ?? "no certificate yet");
    }
    const timeoutMs = listener.handshakeTimeoutMs;
    this.#deadline = deadlines.after(timeoutMs, () => {
      this.end("handshake_timed_out", `not done after ${timeoutMs} ms`);
    });
    accepted.secure(trust.server(accepted.remote), (outcome) => {
      this.#deadline?.cancel();
      if (outcome.kind === "failed") {
        return this.end(outcome.gone ? "closed_early" : "handshake_failed", outcome.reason);
      }
      this.#admit(outcome.connection, outcome.peer);
    });
  }

  /** Whom its own rules let in; intentions are about callers of the local service. */
  #admit(connection: Connection, caller: PresentedPeer): void {
    this.record.stage = "identity";
    this.#downstream = connection;
    this.record.verifiedMs = this.#context.clock.now();
    const verdict = this.#callersTrust?.verify(caller, "client", this.record.verifiedMs);
    if (verdict?.kind !== "trusted") {
      return this.end(verdict?.code ?? "not_ready", verdict?.reason ?? "no certificate yet");
    }
    this.record.source = verdict.name;
    this.#caller = caller;
    this.#wait(connection);
  }

  get #callersTrust(): Trust | undefined {
    const { listener } = this.#upstream.part;
    return listener ? this.#context.facts.trusts.of(listener.credentials) : undefined;
  }

  /** Waiting to be dialled counts against a limit of its own. */
  #wait(downstream: Connection): void {
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
    const { facts, clock } = this.#context;
    this.record.stage = "endpoint";
    const trust = facts.trusts.of(this.#upstream.part.credentials);
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
        { code: "no_endpoint" as const, reason: "no healthy instance" };
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
        this.#identify(lease, { connection, presented, trust });
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
  #identify(
    lease: Lease,
    server: ProvenEndpoint & { readonly trust: Trust },
  ): void {
    const { connection, presented } = server;
    this.record.verifiedMs = this.#context.clock.now();
    const refusal = this.#faultOf(presented, lease);
    if (refusal !== undefined) {
      connection.close();
      return this.#failed(lease, "endpoint_untrusted", refusal);
    }
    this.record.resumed = presented.resumed;
    this.record.tlsVersion = presented.version;
    if (presented.resumed) this.#upstream.stats.resumed.add(1);
    this.#relay({ connection, presented });
  }

  /** Why the server may not be talked to by the facts of now; undefined: it may. */
  #faultOf(presented: PresentedPeer, lease: Lease): string | undefined {
    const trust = this.#context.facts.trusts.of(this.#upstream.part.credentials);
    const verdict = trust?.verify(presented, "server", this.record.verifiedMs);
    if (!trust || !verdict) return "no certificate of our own";
    if (verdict.kind !== "trusted") return verdict.reason;
    const { spiffeUris } = lease.target.part;
    if (trust.namesPeers || spiffeUris.includes(verdict.uri)) return undefined;
    const wanted = spiffeUris.join(" or ") ||
      "anybody that was named: there is no identity to ask for";
    return `it is ${verdict.name}, not ${wanted}`;
  }

  /** Nothing was sent to this one, so the next may be tried. */
  #failed(lease: Lease, code: ErrorCode, reason: string): void {
    if (this.#ended) return;
    const { log, clock, stats } = this.#context;
    const { pool, part } = lease.target;
    const nowMs = clock.monotonic();
    this.#release();
    const ejected = pool.failed(lease.state, nowMs);
    stats.counter("endpoint_failures_total", "Dials that failed", { target: part.key, code }).add(
      1,
    );
    log.debug("endpoint failed", {
      target: part.key,
      endpoint: this.record.endpoint,
      code,
      reason,
    });
    if (ejected) this.#ejected(lease);
    this.#lastFailure = {
      code,
      reason: `Cannot dial "${this.record.destination}" at ${this.record.endpoint}: ${reason}`,
    };
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
        this.#leave(endingOf(end));
      },
    });
    this.#holding?.release();
    this.#holding = undefined;
  }

  /** In TLS 1.3 a client is connected before the server has judged it: passive health looks again. */
  #observe(endedBy: "downstream" | "upstream"): void {
    const lease = this.#lease;
    const { clock } = this.#context;
    if (!lease) return;
    const nowMs = clock.monotonic();
    const refused = endedBy === "upstream" && this.record.relay?.sentBytes === 0 &&
      nowMs - this.#connectedMs < REFUSAL_WINDOW_MS;
    if (!refused) return lease.target.pool.succeeded(lease.state);
    if (lease.target.pool.failed(lease.state, nowMs)) this.#ejected(lease);
  }

  #ejected(lease: Lease): void {
    const { log, stats } = this.#context;
    const target = lease.target.part.key;
    stats.counter("endpoint_ejections_total", "Endpoints ejected", { target }).add(1);
    log.warn("endpoint ejected", { target, endpoint: this.record.endpoint });
  }

  rejudge(): void {
    if (this.#ended) return;
    if (this.#caller) {
      const { verifiedMs } = this.record;
      const verdict = this.#callersTrust?.verify(this.#caller, "client", verifiedMs);
      if (verdict?.kind !== "trusted") {
        return this.end(verdict?.code ?? "not_ready", verdict?.reason ?? "no certificate yet");
      }
    }
    const server = this.#proven;
    const lease = this.#lease;
    if (!server || !lease) return;
    const fault = this.#faultOf(server.presented, lease);
    if (fault !== undefined) this.end("endpoint_untrusted", fault);
  }

  end(code: ErrorCode, reason: string): void {
    if (this.#ended) return;
    // Left first: closing tells the connection's events, which must find it over.
    this.#leave({ kind: "failed", code, reason });
    if (this.record.relay) stopSoon(this.record.relay, this.#context.deadlines);
    else this.#dropDownstream();
  }

  #dropDownstream(): void {
    if (this.#downstream) this.#downstream.reset();
    else this.#accepted?.reset();
  }

  #leave(ending: Ending): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#deadline?.cancel();
    this.#dial?.cancel();
    this.#leavePending();
    this.#release();
    this.#context.processLimit.leave();
    this.#upstream.connections.leave();
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
  #refuse(code: ErrorCode, reason: string): void {
    this.#ended = true;
    this.#dropDownstream();
    this.#report({ kind: "failed", code, reason });
  }

  #report(ending: Ending): void {
    const { log, clock } = this.#context;
    reportEnd(this.record, ending, { log, stats: this.#upstream.stats, nowMs: clock.monotonic() });
  }
}

/** The address without its port: connections of one client stay together. */
function hostOf(remote: string): string {
  return remote.slice(0, Math.max(remote.lastIndexOf(":"), 0));
}
