/**
 * The port between Postern and a runtime's sockets. An engine turns native sockets into
 * {@link Stream}s that all behave the same: writes are taken whole and say when to stop, each half
 * closes on its own, a reset is not an end. Everything is called back synchronously, so that a byte
 * passes from one socket to the next without a promise.
 *
 * @module
 */

import type { Address, BindAddress } from "../base/mod.ts";
import type { ClientHello } from "../wire/mod.ts";

/** What a stream tells its owner. Replaced as the stream moves from stage to stage. */
export interface StreamEvents {
  /** Bytes from the peer. The chunk is the receiver's for good: to keep, to change, to `give` away. */
  onData(chunk: Uint8Array): void;
  /**
   * The peer ended its half; it may still be written to. Over TLS that is a close_notify. A FIN without
   * one may be somebody cutting the stream: a reset where the runtime tells them apart, which Bun 1.4
   * does not.
   */
  onEnd(): void;
  /** After a `write` or `give` that returned false: everything taken has been handed on. */
  onDrain(): void;
  /**
   * Last event. `reset`: the peer or the network broke the stream; not our own `reset`. `alert`: what
   * the peer's TLS said as it broke it, in words; `""`: nothing.
   */
  onClose(reset: boolean, alert: string): void;
}

/** An open byte stream in both directions, whatever carries it. */
export interface Stream {
  events: StreamEvents;
  /**
   * Takes the whole chunk, whose memory is the caller's again when this returns. Small chunks are joined:
   * they leave when the runtime's callback that is running has returned; outside callbacks when the
   * microtask is over. False: what was taken could not be sent at once and stays in memory, and the
   * caller stops its source until `onDrain`.
   */
  write(chunk: Uint8Array): boolean;
  /**
   * As `write`, but the chunk changes hands: nobody changes it any more, so that nothing of it has to be
   * copied. It leaves at once, or with what was joined before it.
   */
  give(chunk: Uint8Array): boolean;
  /** Ends our half after everything written; the peer may go on sending. */
  end(): void;
  /** Ends both halves in an orderly way without waiting for the peer. */
  close(): void;
  /** Breaks the stream at once (TCP: RST), dropping what was not sent. */
  reset(): void;
  /** Stops and resumes `onData`. */
  pause(): void;
  resume(): void;
}

/** A stream on a socket, plain or TLS. */
export interface Connection extends Stream {
  /** `127.0.0.1:40312`, or `unix` for a local socket. */
  readonly remote: string;
  /** Our own end in the same form, also where we listen on all addresses. Found out when asked for. */
  readonly local: string;
}

/** A TCP connection that was accepted and has not shaken hands. */
export interface AcceptedConnection {
  readonly remote: string;
  /** See {@link Connection.local}. */
  readonly local: string;
  /**
   * Starts the server side of TLS; `handler` is called exactly once. A chooser looks at the ClientHello
   * first, which costs a system call or two: only where it decides something.
   */
  secure(tls: ServerTls | ServerTlsChooser, handler: (outcome: HandshakeOutcome) => void): void;
  /** Breaks the connection at once; a pending handshake's handler is not called any more. */
  reset(): void;
}

/** Certificate, key, roots and versions as one engine wants them; made once per generation. */
export interface ServerTls {
  readonly kind: "server";
}

/**
 * Picks the settings of a handshake by what its client says, at most once per connection. Both engines
 * read the whole ClientHello before the handshake begins, so the settings are complete: certificate,
 * roots, versions and sessions of one choice have nothing to do with those of another. Bun can do that
 * on Linux only; elsewhere each client is refused with an alert. What is no ClientHello, or one above 16
 * KiB, fails without the chooser being asked.
 */
export interface ServerTlsChooser {
  readonly kind: "chooser";
  /**
   * `undefined`: the handshake ends there, with the TLS alert `unrecognized_name`; `internal_error` if it
   * throws. A promise holds it up, within its owner's deadline: `reset` ends the wait. A client that
   * leaves meanwhile is told as `gone`, and what comes then is ignored.
   */
  choose(hello: ClientHello): ServerTls | undefined | Promise<ServerTls | undefined>;
}

/** The same for dialling one name; carries the SNI. */
export interface ClientTls {
  readonly kind: "client";
}

/**
 * What the TLS library does about the peer's certificate. `checked`: it asks for one, verifies the chain
 * against the roots, and its verdict counts. `shown`: it asks for one and takes what comes; only our own
 * judgement decides, as where an anchor is an intermediate or each trust domain has anchors of its own.
 * `ignored`: it asks for none.
 */
export type PeerCheck = "checked" | "shown" | "ignored";

export interface TlsMaterial {
  /** Leaf first, PEM; `""`, of a client only: we show no certificate. */
  readonly certPem: string;
  readonly keyPem: string;
  /** Named to clients as acceptable CAs if `checked` or at most 20; verified against if `checked`. */
  readonly rootPems: readonly string[];
  readonly peerCheck: PeerCheck;
  readonly minVersion: "TLSv1.2" | "TLSv1.3";
  readonly maxVersion: "TLSv1.2" | "TLSv1.3";
  /** OpenSSL names for TLS 1.2; empty: {@link DEFAULT_CIPHER_SUITES}. */
  readonly cipherSuites: readonly string[];
  /**
   * Application protocols by ALPN (RFC 7301), as `h2`; a server takes the first of its own that the client
   * offers, and ends the handshake where there is none. Absent or empty: the extension is not sent, and
   * what a client offers is not answered. Who offers nothing is let in.
   */
  readonly protocols?: readonly string[];
}

/** TLS 1.2 suites when nobody says otherwise: forward secret and authenticated only. */
export const DEFAULT_CIPHER_SUITES: readonly string[] = [
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-CHACHA20-POLY1305",
  "ECDHE-RSA-CHACHA20-POLY1305",
];

/** What the peer showed in its handshake, or in the one that its ticket stems from. */
export interface PresentedPeer {
  /**
   * The runtime's own verdict: necessary, never sufficient. With `shown` anybody who proved to have the
   * key of what was shown, and nobody who showed nothing; with `ignored` everybody.
   */
  readonly accepted: boolean;
  /** Why it did not accept, `""` where it did. */
  readonly reason: string;
  /** DER of the leaf; undefined: the peer showed no certificate. */
  readonly leaf: Uint8Array | undefined;
  /** DER of everything else it presented, in its order. Costly: ask only for unknown leaves. */
  chain(): readonly Uint8Array[];
  /** `TLSv1.3`. */
  readonly version: string;
  /** The application protocol agreed on in this handshake; `""`: none was. */
  readonly protocol: string;
  /** Of a client: the name that it asked for (SNI, RFC 6066 3), in this handshake; `""`: none. */
  readonly serverName: string;
  readonly resumed: boolean;
}

export type HandshakeOutcome =
  | { readonly kind: "secured"; readonly connection: Connection; readonly peer: PresentedPeer }
  | {
    readonly kind: "failed";
    readonly reason: string;
    /** The peer just went away, as health checks and port scanners do. */
    readonly gone: boolean;
  };

/** Opaque state that lets the next handshake with the same server be a short one. */
export type Ticket = Uint8Array;

export interface DialOptions {
  readonly address: Address;
  /** Absent: plain. */
  readonly tls?: ClientTls;
  readonly ticket?: Ticket | undefined;
}

/** Exactly one of `onConnected` and `onFailed` is called, unless the dial was cancelled before. */
export interface DialHandler {
  /** With TLS: after the handshake, with what the server presented. */
  onConnected(connection: Connection, peer: PresentedPeer | undefined): void;
  /** `handshake`: TCP was up. */
  onFailed(stage: "connect" | "handshake", reason: string): void;
  /** A newer ticket; any number of times while the connection lives. */
  onTicket?(ticket: Ticket): void;
}

export interface Dial {
  /** Breaks off at once; the handler is not called any more. */
  cancel(): void;
}

export interface ListenOptions {
  readonly address: BindAddress;
  /** Several workers listen on the same TCP address and the kernel shares the load. */
  readonly reusePort: boolean;
}

export interface Listener {
  /** Where it really listens: the port that 0 became. */
  readonly address: BindAddress;
  /**
   * Stops accepting until `resume`. New clients wait in the kernel where the engine can do that (Bun on
   * Linux) and are refused elsewhere; a few that it had begun to accept may still come.
   */
  pause(): void;
  /** Accepts again. Fails with `listen_failed`, still paused, where the address was lost meanwhile. */
  resume(): void;
  /** Whether clients of a paused one wait in the kernel; else they are refused. */
  readonly keepsWaiting: boolean;
  /** Stops accepting for good; open connections live on. */
  close(): void;
}

/** Sockets and TLS of one runtime. */
export interface Engine {
  /** `bun 1.4.5`, `deno 2.9.6`. */
  readonly name: string;
  /** Plain connections. Fails with `listen_failed`. */
  listen(options: ListenOptions, onConnection: (connection: Connection) => void): Promise<Listener>;
  /** Connections that must shake hands before anything else. */
  listenSecure(
    options: ListenOptions,
    onAccepted: (accepted: AcceptedConnection) => void,
  ): Promise<Listener>;
  dial(options: DialOptions, handler: DialHandler): Dial;
  /**
   * Gives back memory that only the start or a load needed, once things are quiet. Of this thread's
   * heap; the main thread also says `shared`, for what all threads share.
   */
  trim(options?: { readonly shared: boolean }): void;
  /** Gives back what nobody has a use for any more, now and not when the runtime finds the time. */
  collect(): void;
  serverTls(material: TlsMaterial): ServerTls;
  /**
   * Would the TLS library take this pair? Undefined: yes; else what it minds. Builds a context and drops
   * it. Neither certificate nor key is a client's that shows none.
   */
  tlsFault(material: Pick<TlsMaterial, "certPem" | "keyPem" | "rootPems">): string | undefined;
  clientTls(material: TlsMaterial, options: { readonly serverName: string }): ClientTls;
}

/** Events of a stream that nobody owns any more. */
export const ignoredEvents: StreamEvents = {
  onData: () => {},
  onEnd: () => {},
  onDrain: () => {},
  onClose: () => {},
};
