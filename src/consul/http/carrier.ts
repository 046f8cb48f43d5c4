/**
 * What a request and its reply are on the wire, and who carries them to whom: an agent that stays the
 * same, or whichever of Consul's servers is in use.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";

/** Who answers, for messages. */
export type AnsweringPeer = "agent" | "server";

export interface WireRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly timeoutMs: number;
  /** Its reply comes when something has changed. */
  readonly waits?: boolean;
  /** May be asked a second time where the first went into a connection that was closed already. */
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
  /** Ends every connection; running requests fail with `closed`. */
  close(): void;
  /** Takes no new work into account: closes when what runs has ended. For changed certificates. */
  retire(): void;
  /** Closes connections that carry nothing. */
  dropIdle(): void;
}

export interface Carrier {
  readonly peer: AnsweringPeer;
  /** Who is asked now, for people. */
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
 * A wait ended for a reason that says nothing about who answers it: its server was left, or its token
 * was replaced. It is to be asked anew at once, from where the watch stands then.
 */
export class AskAgain extends ProxyError {
  constructor(reason: string) {
    super("closed", reason);
  }
}

/** The connection stood, as far as anybody knows, and the reply did not come in time. */
export class NoReply extends ProxyError {
  constructor(message: string) {
    super("agent_unreachable", message);
  }
}

/** The body of a reply that came in pieces of `size` bytes together. */
export function bodyText(chunks: readonly Uint8Array[], size: number): string {
  const whole = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.length;
  }
  return new TextDecoder().decode(whole);
}

/** Whoever wanted the reply does not want it any more. */
export function givenUp(): ProxyError {
  return new ProxyError("closed", "The request to Consul was given up");
}
