/**
 * What the parts of a life beside servers alone know of each other: where servers are, the one in use,
 * calls to it, and the token that they carry.
 *
 * @module
 */

import type { ProxyError } from "../../base/mod.ts";
import type { MessageTypes } from "../../grpc/mod.ts";
import type { FlagNames } from "../flag_names.ts";
import type { TlsFiles } from "../http/files.ts";

/** Where servers are looked for. */
export type ServerAddresses =
  /** Addresses, and DNS names with one or several each. Not empty. */
  | { readonly kind: "names"; readonly names: readonly string[] }
  /** A command that prints addresses with blanks between them; its first word is the program. */
  | { readonly kind: "exec"; readonly command: readonly string[] };

/** How this proxy logs in where its token is not given. */
export interface LoginOptions {
  readonly authMethod: string;
  /** Wins over `bearerTokenFile`. */
  readonly bearerToken: string;
  /** Read anew for each login. */
  readonly bearerTokenFile: string;
  readonly meta: Readonly<Record<string, string>>;
  readonly datacenter: string;
  readonly namespace: string;
  readonly partition: string;
}

/** Checked; empty text means not given. */
export interface ServersOptions {
  readonly places: ServerAddresses;
  readonly grpcPort: number;
  readonly httpPort: number;
  /** Of both ports; `null`: plain text. */
  readonly tls: TlsFiles | null;
  /** False: what {@link places} gives is all there is, and a server is probed once a minute. */
  readonly watchServers: boolean;
  /** The node whose catalog entries are ours. */
  readonly node: string;
  readonly token: string;
  /** Wins over `token`, and is read again when it changes. */
  readonly tokenFile: string;
  /** Wins over both. */
  readonly login: LoginOptions | null;
  /** `""`: that of the registration. */
  readonly datacenter: string;
  readonly namespace: string;
  readonly partition: string;
  /** For messages. */
  readonly names: FlagNames;
}

/** The token that calls carry now. */
export interface CallToken {
  /** `""`: none. */
  current(): string;
  /**
   * While there is none to ask with yet: resolves when there is one, rejects with why there is none so far.
   * Undefined or absent: calls need not wait.
   */
  readonly coming?: Promise<void> | undefined;
  /**
   * `fn` is called when another token is in use from now on: what waits with the old one asks again with
   * the new one, before the old one ends. Returns how to stop.
   */
  onChange(fn: () => void): () => void;
  /** Consul does not know `token` (any more): one that can be replaced will be. Ignored for others. */
  rejected(token: string): void;
}

/** One of Consul's servers. */
export interface Server {
  /** An IP address. */
  readonly host: string;
}

/** A gRPC method with its messages. */
export interface Method<Request, Response> extends MessageTypes<Request, Response> {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** What the caller is after, for messages: `have the certificate signed`. */
  readonly what: string;
  /** Label of the request counter: `sign`. */
  readonly resource: string;
}

export interface StreamSink<T> {
  onMessage(message: T): void;
  /** Each failure; the stream is opened again by itself and the last message stays true. */
  onError(error: ProxyError): void;
}

/**
 * Consul's servers as those who ask them see it: one is in use for everything, until it fails or says
 * that it is overloaded; then all moves on to another.
 */
export interface ConsulServers {
  /** Undefined while none is found. */
  readonly current: Server | undefined;
  /**
   * One question with one answer, of the server in use; waits for one within `timeoutMs`, and for a token
   * where that is what a login has to give. Rejects with `agent_unreachable` (UNAVAILABLE, too late, none there), `agent_forbidden` (PERMISSION_DENIED,
   * UNAUTHENTICATED), `agent_overloaded` (RESOURCE_EXHAUSTED), `agent_not_found`, `agent_failed`
   * (anything else), `agent_reply_invalid`, or `closed`. No failure but the first moves on by itself.
   */
  call<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<Response>;
  /** A stream for as long as it is wanted: opened again, after a pause, whenever it ends. */
  follow<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    sink: StreamSink<Response>,
  ): { stop(): void };
  /** `server` is no good (unreachable, silent, overloaded): another is looked for. Ignored if not in use. */
  leave(server: Server, reason: string): void;
  /**
   * `fn` is called whenever another server is in use from now on, or the last one again after it was lost.
   * Returns how to stop.
   */
  onMove(fn: (server: Server) => void): () => void;
  close(): void;
}
