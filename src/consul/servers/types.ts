/** Types that the parts beside servers share: places of servers, the one in use, calls to it. @module */

import type { ProxyError } from "../../base/mod.ts";
import type { MessageTypes } from "../../grpc/mod.ts";
import type { AgentOptions } from "../http/options.ts";
import type { TlsFiles } from "../http/files.ts";
import type { FlagNames } from "../model/flag_names.ts";

/** The places in which servers are looked for. */
export type ServerAddresses =
  /** Addresses, and DNS names with one or several each. Not empty. */
  | { readonly kind: "names"; readonly names: readonly string[] }
  /** A command that prints addresses with blanks between them; its first word is the program. */
  | { readonly kind: "exec"; readonly command: readonly string[] };

/** How this proxy logs in where its token is not given. */
export interface LoginOptions extends Pick<AgentOptions, "datacenter" | "namespace" | "partition"> {
  readonly authMethod: string;
  /** Wins over `bearerTokenFile`. */
  readonly bearerToken: string;
  /** Read anew for each login. */
  readonly bearerTokenFile: string;
  readonly meta: Readonly<Record<string, string>>;
}

/** Checked; empty text means not given. */
export interface ServersOptions
  extends Pick<AgentOptions, "token" | "tokenFile" | "datacenter" | "namespace" | "partition"> {
  readonly places: ServerAddresses;
  readonly grpcPort: number;
  readonly httpPort: number;
  /** For both ports; `null`: plain text. */
  readonly tls: TlsFiles | null;
  /** False: only {@link places} gives servers, and the one in use is probed once a minute. */
  readonly watchServers: boolean;
  /** The node whose catalog entries are ours. */
  readonly node: string;
  /** Wins over a token and its file. */
  readonly login: LoginOptions | null;
  /** For messages. */
  readonly names: FlagNames;
}

/** One of Consul's servers. */
export interface Server {
  /** An IP address. */
  readonly host: string;
}

export interface Method<Request, Response> extends MessageTypes<Request, Response> {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** The caller's purpose, for messages: `have the certificate signed`. */
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
 * Consul's servers for the parts that call them: one is in use for everything, until it fails or refuses
 * for load; then everything moves to another.
 */
export interface ConsulServers {
  /** Undefined while none is found. */
  readonly current: Server | undefined;
  /**
   * One call of the server in use; waits within `timeoutMs` for a server, and for the token of a login.
   * Rejects with `agent_unreachable` (UNAVAILABLE, too late, no server), `agent_forbidden`
   * (PERMISSION_DENIED, UNAUTHENTICATED), `agent_overloaded` (RESOURCE_EXHAUSTED), `agent_not_found`,
   * `agent_failed` (any other status), `agent_reply_invalid`, or `closed`. Only the first moves on by itself.
   */
  call<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<Response>;
  /** A stream that is kept open: after a pause it is opened again whenever it ends. */
  follow<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    sink: StreamSink<Response>,
  ): { stop(): void };
  /** Gives up `server` (unreachable, silent, overloaded) for another. Ignored if it is not in use. */
  leave(server: Server, reason: string): void;
  /**
   * Calls `fn` whenever another server is in use from now on, or the last one again after it was lost.
   * Returns how to stop.
   */
  onMove(fn: (server: Server) => void): () => void;
  close(): void;
}
