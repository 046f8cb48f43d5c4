/**
 * One HTTP/2 connection over TLS to one of Consul's servers: dialled at once and never again, judged
 * before anything is said on it, and asked by PING when nothing comes.
 *
 * @module
 */

import { type Address, type Clock, type Deadlines, messageOf, type Timer } from "../../base/mod.ts";
import { clientTlsFor, whyRefused } from "../../grpc/mod.ts";
import {
  type ClientConnection,
  type ClientExchange,
  DEFAULT_HTTP_LIMITS,
  type HttpEnd,
  openHttp2Client,
  type RequestHead,
  type ResponseEvents,
} from "../../http/mod.ts";
import {
  type Connection,
  type Dial,
  type Engine,
  type PresentedPeer,
  SPEAKS_NO_TLS,
} from "../../net/mod.ts";
import type { ServersTls } from "./tls_trouble.ts";

export interface Http2LineOptions {
  readonly engine: Pick<Engine, "dial" | "clientTls">;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly address: Address;
  readonly tls: ServersTls;
  /** Its state is another, or it has room for one more request. */
  readonly onChange: () => void;
}

/** Until the server is known to be one, and to speak HTTP/2. */
const CONNECT_MS = 10_000;
const WANTED =
  "-http-port (POSTERN_HTTP_PORT) wants that of its HTTPS API, 8501 unless configured otherwise";
/** Nothing was heard since the interval began; so one that hangs is known within 24 s. */
const KEEP_ALIVE = { intervalMs: 9_000, timeoutMs: 6_000 };
/** For the last words on a connection that is given up. */
const LINGER_MS = 1_000;

/** `drained`: it takes no new requests, and ends with the last one. */
export type LineState = "connecting" | "open" | "drained" | "lost";

export class Http2Line {
  readonly #options: Http2LineOptions;
  readonly #connecting: Timer;
  #dial: Dial | undefined;
  #socket: Connection | undefined;
  #http: ClientConnection | undefined;
  #state: LineState = "connecting";
  /** Why it is lost. */
  why = "";

  constructor(options: Http2LineOptions) {
    this.#options = options;
    this.#connecting = options.clock.after(
      CONNECT_MS,
      () => this.#lost(`no connection within ${CONNECT_MS} ms`),
    );
    void this.#connect();
  }

  get state(): LineState {
    return this.#state;
  }

  /** Requests that it takes now. */
  get capacity(): number {
    return this.#state === "open" ? this.#http?.capacity ?? 0 : 0;
  }

  /** Only while there is capacity. */
  request(head: RequestHead, ends: boolean, events: ResponseEvents): ClientExchange {
    if (!this.#http) throw new Error("Cannot send a request: no connection");
    return this.#http.request(head, ends, events);
  }

  /** Breaks it; its requests are told. */
  close(): void {
    if (this.#http) this.#http.reset("given up");
    else this.#lost("given up");
  }

  async #connect(): Promise<void> {
    const { engine, address, tls } = this.#options;
    try {
      const material = await tls.material();
      if (this.#state === "lost") return;
      const dialTls = clientTlsFor(tls.serverName, { engine, material });
      this.#dial = engine.dial({ address, tls: dialTls }, {
        onConnected: (socket, peer) =>
          this.#connected(socket, whyRefused(peer, material) ?? whyNotHttp2(peer)),
        onFailed: (stage, reason) =>
          this.#lost(
            stage === "connect" || reason === SPEAKS_NO_TLS ? `${reason}; ${WANTED}` : reason,
          ),
      });
    } catch (error) {
      this.#lost(messageOf(error));
    }
  }

  #connected(socket: Connection, refused: string | undefined): void {
    this.#socket = socket;
    if (refused !== undefined) return this.#lost(refused);
    const { clock, deadlines } = this.#options;
    this.#http = openHttp2Client(socket, {
      ...{ clock, deadlines, limits: DEFAULT_HTTP_LIMITS, keepAlive: KEEP_ALIVE },
      events: {
        onCapacity: () => this.#look(),
        onClose: (end) => this.#lost(whyEnded(end)),
      },
    });
  }

  #look(): void {
    if (this.#state === "lost") return;
    // The first thing that changes the capacity are the settings of the server.
    if (this.#state === "connecting") this.#connecting.cancel();
    // That it is full by our own requests is never told.
    this.#state = this.#http?.capacity === 0 ? "drained" : "open";
    this.#options.onChange();
  }

  #lost(why: string): void {
    if (this.#state === "lost") return;
    const wasOpen = this.#state !== "connecting";
    this.#state = "lost";
    this.why = this.#options.tls.explain(why);
    this.#connecting.cancel();
    // Last words wait for a peer that may never read them.
    if (wasOpen) this.#options.clock.after(LINGER_MS, () => this.#socket?.reset());
    else {
      this.#dial?.cancel();
      this.#socket?.reset();
    }
    this.#options.onChange();
  }
}

function whyNotHttp2(peer: PresentedPeer | undefined): string | undefined {
  return peer?.protocol === "h2" ? undefined : `it does not speak HTTP/2; ${WANTED}`;
}

function whyEnded({ kind, detail }: HttpEnd): string {
  if (detail !== "") return detail;
  return kind === "closed" ? "the server closed the connection" : "the connection broke";
}
