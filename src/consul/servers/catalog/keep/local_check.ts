/**
 * Does the local application answer? Asked by ourselves, since the servers run no checks. As with
 * Consul's own checks: by HTTP 2xx is passing, 429 a warning, and all else critical; redirections are
 * not followed.
 *
 * @module
 */

import { type Address, type Clock, formatAddress } from "../../../../base/mod.ts";
import { type Dial, type Engine, ignoredEvents } from "../../../../net/mod.ts";

const TIMEOUT_MS = 5_000;
/** A status line is far shorter. */
const LINE_LIMIT_BYTES = 1_024;

export interface LocalHealth {
  readonly status: "passing" | "warning" | "critical";
  /** For people; says the same each time for the same reason. */
  readonly output: string;
}

export interface LocalCheck {
  readonly address: Address;
  /** `""`: a connection is enough. */
  readonly httpPath: string;
}

/** Never rejects; `signal` makes it critical at once. */
export function checkLocal(
  { address, httpPath }: LocalCheck,
  { engine, clock, signal }: {
    readonly engine: Pick<Engine, "dial">;
    readonly clock: Clock;
    readonly signal: AbortSignal;
  },
): Promise<LocalHealth> {
  const what = httpPath ? `GET ${httpPath} of ${formatAddress(address)}` : formatAddress(address);
  return new Promise((resolve) => {
    let leave = () => dial.cancel();
    const end = (status: LocalHealth["status"], fact: string) => {
      timer.cancel();
      signal.removeEventListener("abort", onAbort);
      leave();
      resolve({ status, output: `${what}: ${fact}` });
    };
    const onAbort = () => end("critical", "given up");
    const timer = clock.after(TIMEOUT_MS, () => end("critical", `no answer in ${TIMEOUT_MS} ms`));
    signal.addEventListener("abort", onAbort);
    const dial: Dial = engine.dial({ address }, {
      onFailed: (_stage, reason) => end("critical", reason),
      onConnected(connection) {
        leave = () => {
          connection.events = ignoredEvents;
          connection.reset();
        };
        if (!httpPath) {
          leave = () => {
            connection.events = ignoredEvents;
            connection.close();
          };
          return end("passing", "connected");
        }
        const head = new HeadReader();
        connection.events = {
          ...ignoredEvents,
          onData(chunk) {
            const status = head.take(chunk);
            if (status === undefined) return;
            const health = status >= 200 && status < 300
              ? "passing"
              : status === 429
              ? "warning"
              : "critical";
            end(health, status === 0 ? "no HTTP" : `status ${status}`);
          },
          onEnd: () => end("critical", "closed without an answer"),
          onClose: () => end("critical", "closed without an answer"),
        };
        const host = address.kind === "unix" ? "localhost" : formatAddress(address);
        connection.write(
          new TextEncoder().encode(
            `GET ${httpPath} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: Postern health check\r\n` +
              "Accept: */*\r\nConnection: close\r\n\r\n",
          ),
        );
      },
    });
    if (signal.aborted) onAbort();
  });
}

/** The status of an HTTP/1 answer, from as many pieces as it comes in. */
class HeadReader {
  #text = "";

  /** Undefined: not known yet; 0: that is no answer. */
  take(chunk: Uint8Array): number | undefined {
    this.#text += new TextDecoder("latin1").decode(chunk.subarray(0, LINE_LIMIT_BYTES));
    const status = /^HTTP\/1\.[01] (\d{3})[ \r\n]/.exec(this.#text)?.[1];
    if (status !== undefined) return Number(status);
    return this.#text.length >= LINE_LIMIT_BYTES || /[\r\n]/.test(this.#text) ? 0 : undefined;
  }
}
