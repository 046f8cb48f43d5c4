/**
 * The health of the two services that we register, checked here since the servers run no checks. The
 * application is healthy when it answers; its sidecar when the application is and it takes connections
 * itself. As with Consul's own checks, HTTP 2xx is passing, 429 a warning, and everything else critical;
 * redirections are not followed.
 *
 * @module
 */

import { type Address, type Clock, formatAddress, type Random } from "../../../../base/mod.ts";
import { type Dial, type Engine, ignoredEvents } from "../../../../net/mod.ts";
import type { RegisterRequest } from "../../../model/consul.ts";
import { onAbort, wakeableSleep } from "../../../watch/pauses.ts";

const INTERVAL_MS = 10_000;
/** A service that is not healthy is checked sooner: everything may be just starting. */
const RECHECK_MS = 1_000;
const TIMEOUT_MS = 5_000;
/** A status line is far shorter. */
const LINE_LIMIT_BYTES = 1_024;

const UNKNOWN: LocalHealth = { status: "critical", output: "not asked yet" };
const LEAVING: LocalHealth = { status: "critical", output: "the proxy is ending" };

interface OwnHealthOptions {
  /** Aborts when no new callers should come; both services are critical afterwards. */
  readonly draining: AbortSignal | undefined;
  /** Aborts when callers are served; `undefined`: they are served already. */
  readonly serving: AbortSignal | undefined;
  readonly deps: {
    readonly clock: Clock;
    readonly random: Random;
    readonly engine: Pick<Engine, "dial">;
  };
  /** Called when the status of one has changed. */
  onNews(): void;
}

export class OwnHealth {
  readonly #request: RegisterRequest;
  readonly #options: OwnHealthOptions;
  #application = UNKNOWN;
  #sidecar = UNKNOWN;

  constructor(request: RegisterRequest, options: OwnHealthOptions) {
    this.#request = request;
    this.#options = options;
  }

  of(serviceId: string): LocalHealth {
    if (this.#options.draining?.aborted) return LEAVING;
    return serviceId === this.#request.applicationId ? this.#application : this.#sidecar;
  }

  /** Checks until `signal` aborts, and at once when callers are served. */
  async follow(signal: AbortSignal): Promise<void> {
    const { serving, deps: { clock, random } } = this.#options;
    while (!signal.aborted) {
      const baseMs = this.#sidecar.status === "passing" ? INTERVAL_MS : RECHECK_MS;
      const onWake = onAbort([serving]);
      await wakeableSleep(clock, baseMs * (0.9 + 0.2 * random()), { signal, onWake });
      if (!signal.aborted) await this.check(signal);
    }
  }

  async check(signal: AbortSignal): Promise<void> {
    const { registration: { bind, local }, httpCheckPath } = this.#request;
    const { engine, clock } = this.#options.deps;
    const terms = { engine, clock, signal };
    const [application, listener] = await Promise.all([
      checkLocal({ address: reachable(local), httpPath: httpCheckPath }, terms),
      checkLocal({ address: reachable(bind), httpPath: "" }, terms),
    ]);
    if (signal.aborted) return;
    const sidecar = listener.status === "passing" ? application : listener;
    const isNews = application.status !== this.#application.status ||
      sidecar.status !== this.#sidecar.status;
    this.#application = application;
    this.#sidecar = sidecar;
    if (isNews) this.#options.onNews();
  }
}

/** The loopback address in place of one that means all addresses. */
function reachable(address: Address): Address {
  if (address.kind !== "tcp") return address;
  if (address.host === "0.0.0.0") return { ...address, host: "127.0.0.1" };
  return address.host === "::" ? { ...address, host: "::1" } : address;
}

export interface LocalHealth {
  readonly status: "passing" | "warning" | "critical";
  /** For people; the same each time for the same reason. */
  readonly output: string;
}

interface LocalCheck {
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

/** The status of an HTTP/1 response that arrives in pieces. */
class HeadReader {
  #text = "";

  /** Undefined: not known yet; 0: this is no HTTP. */
  take(chunk: Uint8Array): number | undefined {
    this.#text += new TextDecoder("latin1").decode(chunk.subarray(0, LINE_LIMIT_BYTES));
    const status = /^HTTP\/1\.[01] (\d{3})[ \r\n]/.exec(this.#text)?.[1];
    if (status !== undefined) return Number(status);
    return this.#text.length >= LINE_LIMIT_BYTES || /[\r\n]/.test(this.#text) ? 0 : undefined;
  }
}
