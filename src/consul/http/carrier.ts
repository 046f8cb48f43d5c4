/** Requests to Consul and their replies on the wire, and what carries them. @module */

import { ProxyError } from "../../base/mod.ts";

/** The kind of peer, for messages. */
export type AnsweringPeer = "agent" | "server";

/** A call of the HTTP API. */
export interface ConsulCall {
  /** Label of the request counter: `leaf`. */
  readonly resource: string;
  /** The purpose, for messages: `read the leaf of "web"`. */
  readonly what: string;
  readonly method?: "GET" | "PUT" | "POST";
  /** Encoded, without query. */
  readonly path: string;
  /** Empty values are left out. */
  readonly query?: Readonly<Record<string, string>>;
  /** Parameters without a value: `stale`. */
  readonly flags?: readonly string[];
  readonly body?: unknown;
  /** It is a read, whatever its method. */
  readonly changesNothing?: true;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** The right that the call takes, for refusals that do not name it. */
  readonly needs?: string;
  /**
   * Digest of the last reply, `""`: there is none. The same bytes again are not parsed. Given for replies
   * that are kept and acted on: an agent's cluster is proved again for each reply that differs.
   */
  readonly lastDigest?: string;
  /** A 404 is an answer, with `json: null`. */
  readonly absentIsAnswer?: boolean;
  readonly provesCluster?: true;
  /** The refusal of an agent without ACLs is an answer, with `json: null`. */
  readonly aclsOffIsAnswer?: boolean;
}

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

export interface Carrier {
  readonly peer: AnsweringPeer;
  /** The address in use, for people: `https://127.0.0.1:8501`. */
  readonly where: string;
  /**
   * Fails with `agent_unreachable`, `agent_reply_invalid` (too long) or `closed` (aborted), and a wait with
   * {@link AskAgain}.
   */
  send(request: WireRequest): Promise<WireReply>;
  /** Closes connections that carry nothing. */
  dropIdle(): void;
  /** Reads certificates again; unusable ones leave those in use and throw. */
  reloadFiles(): void;
  /** Ends every connection; running requests fail with `closed`. */
  close(): void;
}

/** Connections to one address. */
export interface WireTransport extends Omit<Carrier, "peer" | "reloadFiles"> {
  /** New requests get new connections, those of now end with their last request: for changed files. */
  renew(): void;
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
