/**
 * Health checks over the network. A TCP check wants only that the service accepts the connection.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import type { Engine } from "../../net/mod.ts";

/** Each resolves with a text to show, and rejects where the check fails. */
export interface Probes {
  tcp(host: string, port: number, timeoutMs: number): Promise<string>;
  http(url: string, timeoutMs: number): Promise<string>;
}

export function socketProbes(engine: Engine, clock: Clock): Probes {
  return {
    tcp(host, port, timeoutMs) {
      return new Promise((resolve, reject) => {
        const fail = (fact: string) => reject(new Error(`dial tcp ${host}:${port}: ${fact}`));
        if (!(port > 0 && port < 65536)) return fail("invalid port");
        const timer = clock.after(timeoutMs, () => {
          dial.cancel();
          fail("i/o timeout");
        });
        const dial = engine.dial({ address: { kind: "tcp", host, port } }, {
          onConnected(connection) {
            timer.cancel();
            connection.close();
            resolve(`TCP connect ${host}:${port}: Success`);
          },
          onFailed(_stage, reason) {
            timer.cancel();
            fail(reason);
          },
        });
      });
    },
    async http(url, timeoutMs) {
      const reply = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) });
      await reply.body?.cancel();
      if (reply.ok) return `HTTP GET ${url}: ${reply.status}`;
      throw new Error(`HTTP GET ${url}: ${reply.status}`);
    },
  };
}
