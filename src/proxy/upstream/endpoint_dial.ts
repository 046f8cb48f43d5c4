/**
 * Dials one endpoint and verifies its identity, or the local application, which proves none because the
 * registration says what listens there. Every connection to a mesh endpoint is made here.
 *
 * @module
 */

import { type Address, type Deadline, type ErrorCode, formatAddress } from "../../base/mod.ts";
import type { ChainVerdict, TrustedPeer } from "../../identity/mod.ts";
import type { Connection, Dial, PresentedPeer, Stream } from "../../net/mod.ts";
import { callerName, type ConnectionRecord } from "../observe/connection_record.ts";
import type { UpstreamContext } from "../core/context.ts";
import { countRefusal } from "./endpoint_failure.ts";
import { PeerVerdicts, type TrustContext } from "../trust/trust_context.ts";
import { giveBack, type Lease, type TargetGroup } from "./target_group.ts";

/** An end this soon after connecting, with nothing said, is the server's refusal (TLS 1.3). */
const REFUSAL_WINDOW_MS = 1_000;
/** After this, other endpoints are preferred to one whose handshake is not answered. */
const LONG_MS = 1_000;

interface Proof {
  readonly context: UpstreamContext;
  readonly group: TargetGroup;
  readonly connection: Connection;
  readonly lease: Lease;
  readonly verdicts: PeerVerdicts;
  /** The ALPN protocol; `""`: none was negotiated. */
  readonly protocol: string;
  readonly peer: TrustedPeer | undefined;
}

class Proven {
  readonly stream: Stream;
  readonly group: TargetGroup;
  readonly protocol: string;
  /** SPIFFE id of the server. */
  readonly identity: string;
  /** The lease of the endpoint; released once. */
  readonly lease: Lease;
  readonly #proof: Proof;
  readonly #trust: TrustContext | undefined;
  readonly #provenMs: number;
  #service: string | undefined;

  constructor(proof: Proof) {
    const { context, group, connection, lease, protocol, peer } = this.#proof = proof;
    this.group = group;
    this.stream = connection;
    this.lease = lease;
    this.protocol = protocol;
    this.identity = peer?.uri ?? "";
    this.#trust = trustOf(group, context);
    this.#provenMs = context.clock.monotonic();
  }

  get local(): string {
    return this.#proof.connection.local;
  }

  /** Its service, `finance/db`; `""`: it is accepted, and nothing vouches for its name. */
  get service(): string {
    const { peer } = this.#proof;
    return this.#service ??= peer?.verified ? callerName(peer) : "";
  }

  /** Why the server is no longer trusted; `undefined`: it is trusted. */
  fault(): string | undefined {
    const trust = trustOf(this.group, this.#proof.context);
    return faultOf(this.lease, trust, this.#proof.verdicts.judgeAgain(trust));
  }

  /** Whether the connection was made with the credentials now in force. */
  get isOfNow(): boolean {
    return trustOf(this.group, this.#proof.context) === this.#trust;
  }

  /** In TLS 1.3 a client is connected before the server has judged it, so an early end counts as a failure. */
  ended(by: "downstream" | "upstream", sentBytes: number): void {
    const { target, state } = this.lease;
    const nowMs = this.#proof.context.clock.monotonic();
    const isSoon = nowMs - this.#provenMs < REFUSAL_WINDOW_MS;
    if (by === "upstream" && sentBytes === 0 && isSoon) {
      countRefusal(this.lease, this.#proof.context);
    } // A caller that leaves before the server has sent anything proves nothing about the server.
    else if (sentBytes > 0 || !isSoon) target.pool.succeeded(state, nowMs);
  }

  release(): void {
    giveBack(this.lease);
  }
}

/** The proof that a server showed an identity of the target it was picked for; made here only. */
export type ProvenEndpoint = Proven;

/** Receives the result of a dial, once, unless the dial is cancelled before. */
export interface EndpointDialHandler<Dialled> {
  /** Receives the stage of the dial. */
  readonly record: Pick<ConnectionRecord, "stage" | "endpoint" | "secured">;
  onDialled(connection: Dialled): void;
  /** `tried`: the address dialled last, if `record` does not have it. */
  onFailed(code: ErrorCode, reason: string, tried?: string): void;
}

export class EndpointDial implements Dial {
  readonly #context: UpstreamContext;
  readonly #lease: Lease;
  readonly #group: TargetGroup;
  readonly #handler: EndpointDialHandler<ProvenEndpoint>;
  #deadline: Deadline | undefined;
  #long: Deadline | undefined;
  #answered: (() => void) | undefined;
  #dial: Dial | undefined;

  /** `protocols`: offered by ALPN. The lease stays with its owner. */
  constructor(
    group: TargetGroup,
    lease: Lease,
    handler: EndpointDialHandler<ProvenEndpoint>,
    options: {
      readonly context: UpstreamContext;
      readonly trust: TrustContext;
      readonly protocols: readonly string[];
    },
  ) {
    this.#context = options.context;
    this.#group = group;
    this.#lease = lease;
    this.#handler = handler;
    const { trust, protocols, context: { engine, deadlines, clock } } = options;
    const { record } = handler;
    const { target, state: { endpoint: { host, port } } } = lease;
    const { sni, connectTimeoutMs, key } = target.part;
    const address = { kind: "tcp", host, port } as const;
    const ticketKey = `${key} ${host}:${port} ${protocols}`;
    record.stage = "dial";
    record.endpoint = formatAddress(address);
    this.#long = deadlines.after(LONG_MS, () => {
      this.#answered = this.#group.takesLong(this.#lease.state);
    });
    this.#deadline = deadlines.after(connectTimeoutMs, () => {
      this.#over();
      this.#dial?.cancel();
      const reason = `no connection after ${connectTimeoutMs} ms`;
      this.#handler.onFailed("endpoint_timed_out", reason);
    });
    const nowMs = clock.monotonic();
    const kept = trust.tickets.find(ticketKey, nowMs);
    let provenMs = nowMs;
    const tls = trust.client(sni, protocols);
    this.#dial = engine.dial({ address, tls, ticket: kept?.ticket }, {
      onConnected: (connection, presented) => {
        this.#over();
        this.#dial = undefined;
        if (!presented) return;
        if (kept && presented.resumed) provenMs = kept.provenMs;
        this.#identify(connection, presented);
      },
      onFailed: (stage, reason) => {
        this.#over();
        trust.tickets.drop(ticketKey);
        const fact = stage === "connect" ? reason : `TLS: ${reason}`;
        this.#handler.onFailed("endpoint_refused", fact);
      },
      onTicket: (ticket) => trust.tickets.keep(ticketKey, { ticket, provenMs }),
    });
  }

  /** The server must prove one of the target's identities, by the current snapshot. */
  #identify(connection: Connection, presented: PresentedPeer): void {
    const context = this.#context;
    const lease = this.#lease;
    const verdicts = new PeerVerdicts(presented, "server", context.clock);
    const trust = trustOf(this.#group, context);
    const verdict = verdicts.judge(trust);
    const fault = faultOf(lease, trust, verdict);
    if (fault !== undefined) {
      connection.close();
      return this.#handler.onFailed("endpoint_untrusted", fault);
    }
    this.#handler.record.secured(presented, this.#group.upstream.stats.metrics);
    const { protocol } = presented;
    const peer = verdict?.kind === "trusted" ? verdict : undefined;
    const group = this.#group;
    const proof = { context, group, connection, lease, verdicts, protocol, peer };
    this.#handler.onDialled(new Proven(proof));
  }

  #over(): void {
    this.#deadline?.cancel();
    this.#long?.cancel();
    this.#answered?.();
    this.#answered = undefined;
  }

  cancel(): void {
    this.#over();
    this.#dial?.cancel();
  }
}

export function trustOf(
  { upstream }: TargetGroup,
  { facts }: UpstreamContext,
): TrustContext | undefined {
  return facts.trusts.of(upstream.part.credentials);
}

/** Why the server must not be used; `undefined`: it may be. */
function faultOf(
  lease: Lease,
  trust: TrustContext | undefined,
  verdict: ChainVerdict | undefined,
): string | undefined {
  if (!trust || !verdict) return "no certificate of our own";
  if (verdict.kind !== "trusted") return verdict.reason;
  const { spiffeUris } = lease.target.part;
  if (trust.namesPeers || spiffeUris.includes(verdict.uri)) return undefined;
  // The configuration accepts any server explicitly.
  if (trust.acceptsAnybody && spiffeUris.length === 0) return undefined;
  const wanted = spiffeUris.join(" or ") ||
    "anybody that was named: there is no identity to ask for";
  return `it is ${verdict.name}, not ${wanted}`;
}

const LOCAL: unique symbol = Symbol("local");

/** The local application; only {@link dialLocal} makes one. */
export interface LocalEndpoint {
  readonly [LOCAL]: true;
  readonly stream: Stream;
  readonly local: string;
}

/** Calls the handler once, unless the dial is cancelled before. */
export function dialLocal(
  local: Address,
  handler: EndpointDialHandler<LocalEndpoint>,
  { context: { engine, deadlines }, timeoutMs }: {
    readonly context: UpstreamContext;
    readonly timeoutMs: number;
  },
): Dial {
  const where = formatAddress(local);
  handler.record.stage = "dial";
  handler.record.endpoint = where;
  const deadline = deadlines.after(timeoutMs, () => {
    dial.cancel();
    handler.onFailed("local_timed_out", `no connection to ${where} after ${timeoutMs} ms`);
  });
  const dial = engine.dial({ address: local }, {
    onConnected: (connection) => {
      deadline.cancel();
      handler.onDialled({
        [LOCAL]: true,
        stream: connection,
        get local() {
          return connection.local;
        },
      });
    },
    onFailed: (_stage, reason) => {
      deadline.cancel();
      const fact = `Cannot dial the service at ${where}: ${reason}; does it run?`;
      handler.onFailed("local_refused", fact);
    },
  });
  return {
    cancel: () => {
      deadline.cancel();
      dial.cancel();
    },
  };
}
