/**
 * Dials one server that is configured by address: TCP or a Unix socket, plain or over TLS with our own
 * verdict on the server's certificate. The TLS library's verdict must agree if it can express the rules.
 *
 * @module
 */

import {
  type Address,
  canonicalIpText,
  type Clock,
  Deadlines,
  messageOf,
  ProxyError,
} from "../../base/mod.ts";
import {
  createPeerValidator,
  parseCertificate,
  sameBytes,
  type SanMatcher,
  type Validation,
} from "../../identity/mod.ts";
import type { ClientTls, Connection, Dial, Engine, PresentedPeer } from "../../net/mod.ts";
import { parsePem } from "../../wire/mod.ts";
import { DEFAULT_HTTP_LIMITS, type HttpEnd } from "../exchange.ts";
import type { ClientPoolOptions, PoolFault, ReachHandler } from "./client_pool.ts";
import type { Reached } from "./kept_connection.ts";

export type DialEngine = Pick<Engine, "dial" | "clientTls">;

export interface DialCredentials {
  /** Anchors; never empty if `peerCheck` is `checked`. */
  readonly rootPems: readonly string[];
  /** `""`: no certificate is presented. */
  readonly certPem: string;
  readonly keyPem: string;
  /** `checked`: the TLS library verifies the chain, too. `shown`: only `judge` decides. */
  readonly peerCheck: "checked" | "shown";
  /** Our own verdict on the server's certificates (DER, leaf first) and name: why it is refused. */
  judge(chain: readonly Uint8Array[]): string | undefined;
}

export interface DialTls {
  /** SNI, unless it is an IP address, which SNI cannot carry; also the authority of requests. */
  readonly serverName: string;
  /** Called before each connection, so that the next one uses rotated credentials. */
  material(): DialCredentials | Promise<DialCredentials>;
}

interface DialServerOptions {
  readonly engine: DialEngine;
  readonly address: Address;
  /** `null`: plain text. */
  readonly tls: DialTls | null;
  /** Offered by ALPN; empty: the extension is not sent. */
  readonly protocols: readonly string[];
}

/** A server that was dialled, and that proved its identity if TLS is used. */
export interface ReachedServer extends Reached {
  readonly stream: Connection;
  readonly protocol: string;
  readonly address: Address;
}

export interface DialFailure {
  /** `credentials`: ours cannot be used; `peer`: the server's is refused; `http`: a fault of HTTP. */
  readonly stage: "credentials" | "connect" | "handshake" | "peer" | "http";
  readonly reason: string;
}

export function dialServer(
  options: DialServerOptions,
  handler: ReachHandler<ReachedServer, DialFailure>,
): Dial {
  const { tls } = options;
  if (!tls) return dialWith(options, undefined, handler);
  let dial: Dial | undefined;
  let isCancelled = false;
  const start = async () => {
    try {
      const credentials = await tls.material();
      if (!isCancelled) dial = dialWith(options, credentials, handler);
    } catch (error) {
      if (!isCancelled) handler.onFailed({ stage: "credentials", reason: messageOf(error) });
    }
  };
  void start();
  return {
    cancel() {
      isCancelled = true;
      dial?.cancel();
    },
  };
}

function dialWith(
  options: DialServerOptions,
  credentials: DialCredentials | undefined,
  handler: ReachHandler<ReachedServer, DialFailure>,
): Dial {
  const { engine, address } = options;
  return engine.dial(
    { address, ...(credentials && { tls: clientTlsOf(options, credentials) }) },
    {
      onConnected(connection, peer) {
        const refused = credentials && whyRefused(peer, credentials);
        if (refused === undefined) {
          return handler.onDialled({ stream: connection, protocol: peer?.protocol ?? "", address });
        }
        connection.reset();
        handler.onFailed({ stage: "peer", reason: refused });
      },
      onFailed: (stage, reason) => handler.onFailed({ stage, reason }),
    },
  );
}

function clientTlsOf(
  { engine, tls, protocols }: DialServerOptions,
  { rootPems, certPem, keyPem, peerCheck }: DialCredentials,
): ClientTls {
  const { serverName = "" } = tls ?? {};
  if (peerCheck === "checked" && rootPems.length === 0) {
    throw new ProxyError("credentials_invalid", "Cannot check the server: it has no anchors");
  }
  return engine.clientTls({
    rootPems,
    certPem,
    keyPem,
    peerCheck,
    minVersion: "TLSv1.2",
    maxVersion: "TLSv1.3",
    cipherSuites: [],
    protocols,
  }, { serverName: canonicalIpText(serverName) === undefined ? serverName : "" });
}

/** The reason for refusing the server: our own verdict has better words than that of the TLS library. */
function whyRefused(
  peer: PresentedPeer | undefined,
  { judge }: DialCredentials,
): string | undefined {
  if (!peer?.leaf) return peer?.reason || "the connection is not encrypted";
  const judged = judge([peer.leaf, ...peer.chain()]);
  if (judged !== undefined) return judged;
  return peer.accepted ? undefined : peer.reason;
}

/** Matches certificates with the name `name`, a DNS name or an IP address. */
export function serverNameMatcher(name: string): SanMatcher {
  const isIp = name.includes(":") || /^\d+(\.\d+){3}$/.test(name);
  return { type: isIp ? "ip" : "dns", matcher: { kind: "exact", value: name, ignoreCase: !isIp } };
}

/** Regexes among the rules must have been prepared; throws `credentials_invalid`. */
export function serverJudge(
  validation: Exclude<Validation, { readonly kind: "mesh" }>,
  nowMs: () => number,
): DialCredentials["judge"] {
  const own = { serviceTrustDomains: [], strictSpiffeChain: false };
  const validator = createPeerValidator(validation, own);
  return ([leaf, ...presented]) => {
    if (!leaf) return "the server showed no certificate";
    const verdict = validator.judge({ leaf, presented, nowMs: nowMs(), usage: "server" });
    return verdict.kind === "trusted" ? undefined : `the server is not trusted: ${verdict.reason}`;
  };
}

/** Whether each anchor is a root, as the TLS library requires. */
export function areRoots(rootPems: readonly string[]): boolean {
  return rootPems.length > 0 &&
    rootPems.every((pem) =>
      parsePem(pem, { what: "anchors" }).every(({ der }) => {
        const { issuer, subject } = parseCertificate(der);
        return sameBytes(issuer, subject);
      })
    );
}

/** The reason for which an open connection ended. */
export function whyEnded({ kind, detail }: HttpEnd): string {
  if (detail !== "") return detail;
  return kind === "closed" ? "the server closed the connection" : "the connection broke";
}

/** Options of a pool of such connections, for requests of the proxy itself. */
export function serverPoolOptions(clock: Clock): Pick<
  ClientPoolOptions<ReachedServer, DialFailure>,
  "clock" | "timers" | "deadlines" | "limits" | "failureOf"
> {
  return {
    clock,
    timers: clock,
    deadlines: new Deadlines(clock),
    limits: DEFAULT_HTTP_LIMITS,
    failureOf: dialFailureOf,
  };
}

/** The failure for a fault of a pool of such connections. */
export function dialFailureOf(fault: PoolFault<ReachedServer>): DialFailure {
  return { stage: "http", reason: reasonOf(fault) };
}

function reasonOf(fault: PoolFault<ReachedServer>): string {
  switch (fault.kind) {
    case "closed":
      return "it was given up";
    case "too_many_wait":
      return `${fault.limit} requests wait for it`;
    case "waited_long":
      return `no connection had room for ${fault.waitedMs} ms`;
    case "connect_timed_out":
      return `no connection within ${fault.afterMs} ms`;
    case "ended_early":
      return whyEnded(fault.end);
    case "takes_no_requests":
      return "the server takes no requests";
  }
}
