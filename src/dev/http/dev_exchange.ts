/**
 * A request to the embedded API and its reply, whichever version of HTTP carries them.
 *
 * @module
 */

import type { Connection, Listener, ListenOptions } from "../../net/mod.ts";

export interface DevRequest {
  readonly method: string;
  /** Still percent-encoded. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Uint8Array;
  readonly remoteAddress: string;
  /** Calls `fn` once when the caller has gone; a poll that waits must stop then. */
  onGone(fn: () => void): void;
}

export interface DevReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  /** `cut`: the connection ends in the middle of the body. `hang`: no reply at all. */
  readonly fault?: "cut" | "hang" | undefined;
}

/** Where connections come from: an engine, or what stands before one. */
export interface Acceptor {
  /** `protocol`: what TLS agreed on; `""` and absent: nothing. */
  listen(
    options: ListenOptions,
    onConnection: (connection: Connection, protocol?: string) => void,
  ): Promise<Listener>;
}
