/**
 * Dials the local application: one address, without TLS or proof of identity, because the registration says
 * what listens there.
 *
 * @module
 */

import { type Address, formatAddress } from "../../base/mod.ts";
import type { Dial, Stream } from "../../net/mod.ts";
import type { AttemptHandler } from "./attempt.ts";
import type { UpstreamContext } from "../core/context.ts";

const LOCAL: unique symbol = Symbol("local");

/** The local application; only {@link dialLocal} makes one. */
export interface LocalEndpoint {
  readonly [LOCAL]: true;
  readonly stream: Stream;
  /** Local address of the connection. */
  readonly local: string;
}

/** Calls the handler once, unless the dial is cancelled before. */
export function dialLocal(
  local: Address,
  handler: AttemptHandler<LocalEndpoint>,
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
