/**
 * The way to the local application: one address, plainly, and nothing to prove, for the registration says
 * what listens there.
 *
 * @module
 */

import { type Address, formatAddress } from "../../base/mod.ts";
import type { Connection, Dial } from "../../net/mod.ts";
import type { AttemptHandler } from "./attempt.ts";
import type { Context } from "../core/context.ts";

const LOCAL: unique symbol = Symbol("local");

/** The local application; only {@link dialLocal} makes one. */
export interface LocalEndpoint {
  readonly [LOCAL]: true;
  readonly connection: Connection;
}

/** Tells `dialler`, unless it is cancelled before. */
export function dialLocal(
  local: Address,
  dialler: AttemptHandler<LocalEndpoint>,
  { context: { engine, deadlines }, timeoutMs }: {
    readonly context: Context;
    readonly timeoutMs: number;
  },
): Dial {
  const where = formatAddress(local);
  dialler.record.stage = "dial";
  dialler.record.endpoint = where;
  const deadline = deadlines.after(timeoutMs, () => {
    dial.cancel();
    dialler.onFailed("local_timed_out", `no connection to ${where} after ${timeoutMs} ms`);
  });
  const dial = engine.dial({ address: local }, {
    onConnected: (connection) => {
      deadline.cancel();
      dialler.onDialled({ [LOCAL]: true, connection });
    },
    onFailed: (_stage, reason) => {
      deadline.cancel();
      const fact = `Cannot dial the service at ${where}: ${reason}; does it run?`;
      dialler.onFailed("local_refused", fact);
    },
  });
  return {
    cancel: () => {
      deadline.cancel();
      dial.cancel();
    },
  };
}
