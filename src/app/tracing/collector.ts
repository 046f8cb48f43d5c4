/** Requests to a collector of telemetry: one address, HTTP/1.1, a body, and the status of the reply. @module */

import { type Clock, Deadlines, ProxyError } from "../../base/mod.ts";
import {
  addField,
  ClientPool,
  DEFAULT_HTTP_LIMITS,
  type DialEngine,
  type DialFailure,
  dialFailureOf,
  dialServer,
  type DialTls,
  fieldOf,
  type Fields,
  type KeptConnection,
  type ReachedServer,
  type ResetReason,
  type ResponseEvents,
  type ResponseHead,
} from "../../http/mod.ts";

export interface CollectorReply {
  readonly status: number;
  /** `Retry-After`; `""`: none. */
  readonly retryAfter: string;
}

export interface CollectorPost {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

const CONNECT_MS = 5_000;
const REPLY_MS = 10_000;
/** Requests at a time are few: each waits for its reply. */
const WAITING_LIMIT = 8;

export class CollectorClient {
  readonly #url: URL;
  readonly #clock: Clock;
  readonly #pool: ClientPool<ReachedServer, DialFailure>;

  /** `tls`: for an `https` address. */
  constructor(url: URL, options: {
    readonly engine: DialEngine;
    readonly clock: Clock;
    readonly tls: DialTls | null;
  }) {
    const { engine, clock, tls } = options;
    this.#url = url;
    this.#clock = clock;
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    const port = url.port === "" ? (tls ? 443 : 80) : Number(url.port);
    const address = { kind: "tcp", host, port } as const;
    this.#pool = new ClientPool({
      clock,
      timers: clock,
      deadlines: new Deadlines(clock),
      limits: DEFAULT_HTTP_LIMITS,
      connectMs: CONNECT_MS,
      waitingLimit: WAITING_LIMIT,
      dial: (handler) => dialServer({ engine, address, tls, protocols: [] }, handler),
      failureOf: dialFailureOf,
      version: "h1",
    });
  }

  /** Rejects where no complete reply comes in time. */
  async post(post: CollectorPost): Promise<CollectorReply> {
    const request = new CollectorRequest(this.#url, post);
    const late = this.#clock.after(REPLY_MS, () => request.fail(`no reply in ${REPLY_MS} ms`));
    const dial = this.#pool.reach({
      onDialled: (connection) => request.start(connection),
      onFailed: ({ reason }) => request.fail(reason),
    });
    try {
      return await request.reply;
    } finally {
      late.cancel();
      dial.cancel();
    }
  }

  close(): void {
    this.#pool.drain();
    this.#pool.reset("given up");
  }
}

class CollectorRequest implements ResponseEvents {
  readonly #url: URL;
  readonly #post: CollectorPost;
  readonly #reply = Promise.withResolvers<CollectorReply>();
  #exchange: ReturnType<KeptConnection<ReachedServer>["request"]> | undefined;
  #head: ResponseHead | undefined;

  constructor(url: URL, post: CollectorPost) {
    this.#url = url;
    this.#post = post;
  }

  get reply(): Promise<CollectorReply> {
    return this.#reply.promise;
  }

  start(connection: KeptConnection<ReachedServer>): void {
    const { protocol, host, pathname, search } = this.#url;
    const { headers, body } = this.#post;
    const fields: Fields = [];
    for (const [name, value] of Object.entries(headers)) addField(fields, name, value);
    this.#exchange = connection.request(
      {
        method: "POST",
        scheme: protocol.slice(0, -1),
        authority: host,
        path: pathname + search,
        fields,
        length: body.length,
        saysLength: true,
        expectsContinue: false,
        upgrade: "",
        version: "HTTP/1.1",
      },
      { ends: false },
      this,
    );
    this.#exchange.send(body);
    this.#exchange.end();
  }

  fail(fact: string): void {
    this.#reply.reject(
      new ProxyError("endpoint_refused", `Cannot reach ${this.#url.origin}: ${fact}`),
    );
    this.#exchange?.reset("cancelled");
  }

  onInformational(): void {}

  onResponse(head: ResponseHead, ends: boolean): void {
    this.#head = head;
    if (ends) this.onEnd();
  }

  /** What a collector says besides its status is not used. */
  onData(): void {}

  onEnd(): void {
    const { status = 0, fields = [] } = this.#head ?? {};
    this.#reply.resolve({ status, retryAfter: fieldOf(fields, "retry-after") ?? "" });
  }

  onDrain(): void {}

  onReset(_reason: ResetReason, detail: string): void {
    this.fail(detail || "the connection ended");
  }
}
