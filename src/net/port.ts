/**
 * The port between Postern and a runtime's sockets. An engine turns native sockets into
 * {@link Stream}s that all behave the same: writes are taken whole and say when to stop, each half
 * closes on its own, a reset is not an end. Everything is called back synchronously, so that a byte
 * passes from one socket to the next without a promise.
 *
 * @module
 */

import { type Address, type BindAddress, formatAddress } from "../base/mod.ts";
import { CLIENT_HELLO_LIMIT_BYTES, type ClientHello } from "../wire/mod.ts";

/** Callbacks of a stream's owner. Replaced as the stream moves from stage to stage. */
export interface StreamEvents {
  /** Bytes from the peer. The receiver owns the chunk: it may keep it, change it, `give` it away. */
  onData(chunk: Uint8Array): void;
  /**
   * The peer ended its half; it may still be written to. Over TLS that is a close_notify. A FIN without
   * one may be an attacker truncating the stream: a reset where the runtime distinguishes the two, which
   * Bun 1.4 does not.
   */
  onEnd(): void;
  /** Follows a `write` or `give` that returned false: everything taken has been handed on. */
  onDrain(): void;
  /**
   * Last event. `reset`: the peer or the network broke the stream; not our own `reset`. `alert`: the TLS
   * alert that the peer broke it with, in words; `""`: none.
   */
  onClose(reset: boolean, alert: string): void;
}

/** An open byte stream in both directions, whatever carries it. */
export interface Stream {
  events: StreamEvents;
  /**
   * Takes the whole chunk; its memory is the caller's again when this returns. Small chunks are joined:
   * they leave when the runtime's callback that is running has returned; outside callbacks when the
   * microtask is over. False: what was taken could not be sent at once and stays in memory, and the
   * caller stops its source until `onDrain`.
   */
  write(chunk: Uint8Array): boolean;
  /** As `write`, but the stream owns the chunk, without a copy; it leaves with those joined before. */
  give(chunk: Uint8Array): boolean;
  /** Ends our half after everything written; the peer may go on sending. */
  end(): void;
  /** Ends both halves in an orderly way without waiting for the peer. */
  close(): void;
  /** Breaks the stream at once (TCP: RST) and drops unsent bytes. */
  reset(): void;
  /** Stops and resumes `onData`. */
  pause(): void;
  resume(): void;
}

/** A stream on a socket, plain or TLS. */
export interface Connection extends Stream {
  /** `127.0.0.1:40312`, or `unix` for a local socket. */
  readonly remote: string;
  /** Our own end in the same form, also where we listen on all addresses. Read from the socket on demand. */
  readonly local: string;
}

/** Most bytes that a {@link PrefaceReader} gets. */
export const PREFACE_LIMIT_BYTES = CLIENT_HELLO_LIMIT_BYTES;

/** `more`: wait for further bytes. `used`: so many are consumed. `fault`: the client is refused. */
export type PrefaceReading = "more" | { readonly used: number } | { readonly fault: string };

/**
 * Reads the first bytes of a client: all that have arrived, {@link PREFACE_LIMIT_BYTES} at most, and again
 * when more come. It must not throw, and not keep `bytes`. `more` at the limit is a fault.
 */
export type PrefaceReader = (bytes: Uint8Array) => PrefaceReading;

export type PrefaceOutcome = { readonly kind: "read" } | HandshakeFailure;

/** An accepted TCP connection before its handshake. */
export interface AcceptedConnection {
  readonly remote: string;
  /** See {@link Connection.local}. */
  readonly local: string;
  /**
   * Has the bytes before TLS read, as a PROXY protocol header; `handler` is called exactly once, and then
   * `secure` may be: it gets the bytes after those used. A refused client is reset. The owner limits the
   * time: `reset` ends the wait. Bun can do this on Linux only; elsewhere it fails.
   */
  preface(read: PrefaceReader, handler: (outcome: PrefaceOutcome) => void): void;
  /**
   * Starts the server side of TLS; `handler` is called exactly once. A chooser reads the ClientHello
   * first, which costs a system call or two: use one only where it decides something.
   */
  secure(tls: ServerTls | ServerTlsChooser, handler: (outcome: HandshakeOutcome) => void): void;
  /** Breaks the connection at once; a pending handler is not called any more. */
  reset(): void;
}

/** Certificate, key, roots and versions as one engine wants them; made once per generation. */
export interface ServerTls {
  readonly kind: "server";
}

/**
 * Picks the settings of a handshake by its ClientHello, at most once per connection. Both engines read
 * the whole ClientHello before the handshake begins, so the settings are complete: certificate, roots,
 * versions and sessions of one choice have nothing to do with those of another. Bun can do that on Linux
 * only; elsewhere each client is refused with an alert. Bytes that are no ClientHello, or one above 16
 * KiB, fail without a call of the chooser.
 */
export interface ServerTlsChooser {
  readonly kind: "chooser";
  /**
   * `undefined`: the handshake ends there, with the TLS alert `unrecognized_name`; `internal_error` if it
   * throws. A promise delays it, within its owner's deadline: `reset` ends the wait. A client that leaves
   * meanwhile is reported as `gone`, and the result of the promise is ignored.
   */
  choose(hello: ClientHello): ServerTls | undefined | Promise<ServerTls | undefined>;
}

/** The same for dialling one name; carries the SNI. */
export interface ClientTls {
  readonly kind: "client";
}

/**
 * How the TLS library treats the peer's certificate. `checked`: it requests one, verifies the chain
 * against the roots, and its verdict counts. `shown`: it requests one and accepts any; only our own
 * judgement decides, as where an anchor is an intermediate or each trust domain has anchors of its own.
 * `ignored`: it requests none.
 */
export type PeerCheck = "checked" | "shown" | "ignored";

export interface TlsMaterial {
  /** Leaf first, PEM; `""`, for a client only: we show no certificate. */
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
   * a client's offer is not answered. A client without an offer is let in.
   */
  readonly protocols?: readonly string[];
}

/** TLS 1.2 suites unless configured: forward secret and authenticated only. */
export const DEFAULT_CIPHER_SUITES: readonly string[] = [
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-CHACHA20-POLY1305",
  "ECDHE-RSA-CHACHA20-POLY1305",
];

/** The peer's part of its handshake, or of the one that its ticket stems from. */
export interface PresentedPeer {
  /**
   * The runtime's own verdict: necessary, never sufficient. With `shown`: the peer showed a certificate
   * and proved to have its key. With `ignored`: always true.
   */
  readonly accepted: boolean;
  /** The reason against it; `""`: it was accepted. */
  readonly reason: string;
  /** DER of the leaf; undefined: the peer showed no certificate. */
  readonly leaf: Uint8Array | undefined;
  /** DER of the other certificates it presented, in its order. Costly: call it for unknown leaves only. */
  chain(): readonly Uint8Array[];
  /** `TLSv1.3`. */
  readonly version: string;
  /** The application protocol agreed on in this handshake; `""`: none was. */
  readonly protocol: string;
  /** Server name of a client (SNI, RFC 6066 3), in this handshake; `""`: none. */
  readonly serverName: string;
  readonly resumed: boolean;
}

export interface HandshakeFailure {
  readonly kind: "failed";
  readonly reason: string;
  /** The peer left without a fault, as health checks and port scanners do. */
  readonly gone: boolean;
}

export type HandshakeOutcome =
  | { readonly kind: "secured"; readonly connection: Connection; readonly peer: PresentedPeer }
  | HandshakeFailure;

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
  /** Sockets that listen at this address already, from another process. The engine takes them. */
  readonly descriptors?: readonly number[] | undefined;
}

export interface Listener {
  /** The bound address, with the port that 0 became. */
  readonly address: BindAddress;
  /**
   * Stops accepting until `resume`. New clients wait in the kernel where the engine can do that (Bun on
   * Linux) and are refused elsewhere; a few whose accept had begun may still come.
   */
  pause(): void;
  /** Accepts again. Fails with `listen_failed`, still paused, if the address was lost meanwhile. */
  resume(): void;
  /** True: clients of a paused listener wait in the kernel. False: they are refused. */
  readonly keepsWaiting: boolean;
  /** Copies of its descriptors, for another process; empty: this runtime cannot. */
  copies(): readonly number[];
  /** Stops accepting for good; open connections live on. `handedOver`: another process has its sockets. */
  close(options?: { readonly handedOver: boolean }): void;
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
  /** Returns memory of the start or a load: of this thread or, with `shared`, of all. */
  trim(options?: { readonly shared: boolean }): void;
  /** Collects garbage now, not when the runtime finds the time. */
  collect(): void;
  serverTls(material: TlsMaterial): ServerTls;
  /**
   * The TLS library's objection to this pair; undefined: none. Builds a context and drops it. A client
   * that shows no certificate has neither certificate nor key.
   */
  tlsFault(material: Pick<TlsMaterial, "certPem" | "keyPem" | "rootPems">): string | undefined;
  clientTls(material: TlsMaterial, options: { readonly serverName: string }): ClientTls;
}

export const ignoredEvents: StreamEvents = {
  onData: () => {},
  onEnd: () => {},
  onDrain: () => {},
  onClose: () => {},
};

/** Both runtimes' names for them; a unix socket and a closed one have no address. */
interface Ends {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

/** `127.0.0.1:40312`, or `unix`. On Bun each read of an address or port is a system call. */
export function remoteOf(socket: Ends): string {
  return wordsOf(socket.remoteAddress, socket.remotePort);
}

/** The same for our own end. */
export function localOf(socket: Ends): string {
  return wordsOf(socket.localAddress, socket.localPort);
}

function wordsOf(host: string | undefined, port = 0): string {
  return host ? formatAddress({ kind: "tcp", host, port }) : "unix";
}
