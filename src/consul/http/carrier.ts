/** Requests to Consul and their replies on the wire, and what carries them. @module */

import { ProxyError } from "../../base/mod.ts";

/** The kind of peer, for messages. */
export type AnsweringPeer = "agent" | "server";

export interface WireRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Time limit for the complete reply. */
  readonly timeoutMs: number;
  /** The reply comes when something has changed. */
  readonly waits?: boolean;
  /** It may be sent a second time where its kept connection turns out to be closed. */
  readonly repeatable: boolean;
  /** A longer reply is refused without being kept. */
  readonly limitBytes: number;
  readonly signal?: AbortSignal;
}

export interface WireReply {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Connections to one address. */
export interface WireTransport {
  /** For people: `https://127.0.0.1:8501`. */
  readonly where: string;
  /** Fails with `agent_unreachable`, `agent_reply_invalid` (too long) or `closed` (aborted). */
  send(request: WireRequest): Promise<WireReply>;
  /** New requests get new connections, those of now end with their last request: for changed files. */
  renew(): void;
  /** Closes connections that carry nothing. */
  dropIdle(): void;
  /** Ends every connection; running requests fail with `closed`. */
  close(): void;
}

export interface Carrier {
  readonly peer: AnsweringPeer;
  /** The address in use, for people. */
  readonly where: string;
  /** Fails as {@link WireTransport.send} does, and a wait with {@link AskAgain}. */
  send(request: WireRequest): Promise<WireReply>;
  /** Closes connections that carry nothing. */
  dropIdle(): void;
  /** Reads certificates again; unusable ones leave those in use and throw. */
  reloadFiles(): void;
  /** Ends every connection; running requests fail with `closed`. */
  close(): void;
}

/**
 * A wait ended for a reason other than a fault of the server: the server was left, or the token was
 * replaced. It is sent again at once, from the watch's current position.
 */
export class AskAgain extends ProxyError {
  constructor(reason: string) {
    super("closed", reason);
  }
}

/** The reply did not come in time, on a connection without a known fault. */
export class NoReply extends ProxyError {
  constructor(message: string) {
    super("agent_unreachable", message);
  }
}

/** The owner of the request does not want the reply any more. */
export function givenUp(): ProxyError {
  return new ProxyError("closed", "The request to Consul was given up");
}
