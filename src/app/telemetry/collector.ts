/** Requests to a collector of telemetry, over HTTP/1.1 or gRPC. @module */

import { type Clock, messageOf, type Random } from "../../base/mod.ts";
import { agentCredentials, PROXY_FLAGS, readTlsFiles } from "../../consul/mod.ts";
import { formatStatus, GrpcChannel, type GrpcStatus } from "../../grpc/mod.ts";
import {
  addField,
  ClientPool,
  type DialEngine,
  type DialFailure,
  dialServer,
  type DialTls,
  fieldOf,
  type Fields,
  GRPC_STATUS,
  type KeptConnection,
  type ReachedServer,
  type ResetReason,
  type ResponseEvents,
  type ResponseHead,
  serverPoolOptions,
} from "../../http/mod.ts";
import type { TelemetryCollector } from "../../snapshot/mod.ts";
import type { Signal } from "./otlp.ts";

export type CollectorOutcome =
  | { readonly kind: "taken" }
  | { readonly kind: "refused"; readonly reason: string }
  /** It may be taken later; `afterMs`: when the collector says when. */
  | { readonly kind: "unreachable"; readonly reason: string; readonly afterMs?: number };

/** The connection to one collector. */
export interface CollectorLink {
  /** Never rejects. */
  post(headers: Readonly<Record<string, string>>, body: Uint8Array): Promise<CollectorOutcome>;
  close(): void;
}

export interface CollectorDeps {
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
}

const CONNECT_MS = 5_000;
const REPLY_MS = 10_000;
const KEEP_ALIVE_MS = 30_000;
/** Requests at a time are few: each waits for its reply. */
const WAITING_LIMIT = 8;
const LONGEST_WAIT_MS = 30_000;
/** Statuses of a collector that may take the same request later (OTLP). */
const PASSING: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const PASSING_GRPC: ReadonlySet<number> = new Set([
  GRPC_STATUS.cancelled,
  GRPC_STATUS.deadlineExceeded,
  GRPC_STATUS.resourceExhausted,
  GRPC_STATUS.aborted,
  GRPC_STATUS.outOfRange,
  GRPC_STATUS.unavailable,
  GRPC_STATUS.dataLoss,
]);
const SERVICES: Readonly<Record<Signal, string>> = {
  spans: "trace.v1.TraceService",
  metrics: "metrics.v1.MetricsService",
  logs: "logs.v1.LogsService",
};

const NO_PIPELINE = "; it has no pipeline for this signal, or the address has another path";
const NO_HEADERS = "; give the header fields that it wants, as by OTEL_EXPORTER_OTLP_HEADERS";

/** Throws `config_invalid` where the files for TLS cannot be used. */
export function openCollector(
  collector: TelemetryCollector,
  signal: Signal,
  deps: CollectorDeps,
): CollectorLink {
  const url = new URL(collector.url);
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const tls = url.protocol === "https:" ? tlsOf(collector, host, deps.clock) : null;
  const place = { url, host, tls, headers: collector.headers };
  return collector.format === "otlp_grpc"
    ? new GrpcLinkTo(place, signal, deps)
    : new HttpLink(place, deps);
}

interface CollectorPlace {
  readonly url: URL;
  readonly host: string;
  readonly tls: DialTls | null;
  readonly headers: Readonly<Record<string, string>>;
}

function tlsOf({ files = {} }: TelemetryCollector, host: string, clock: Clock): DialTls {
  const { ca: caFile = "", certificate: certFile = "", key: keyFile = "" } = files;
  const texts = readTlsFiles({
    caFile,
    caPath: "",
    certFile,
    keyFile,
    serverName: "",
    verify: true,
    names: {
      ...PROXY_FLAGS,
      caFile: "OTEL_EXPORTER_OTLP_CERTIFICATE",
      ca: "OTEL_EXPORTER_OTLP_CERTIFICATE",
      cert: "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
      key: "OTEL_EXPORTER_OTLP_CLIENT_KEY",
      serverName: "the host of its address",
    },
  });
  const credentials = agentCredentials(texts, { host, clock });
  return { serverName: host, material: () => credentials };
}

function portOf({ url: { port }, tls }: CollectorPlace): number {
  return port === "" ? (tls ? 443 : 80) : Number(port);
}

class GrpcLinkTo implements CollectorLink {
  readonly #channel: GrpcChannel;
  readonly #method: string;

  constructor(place: CollectorPlace, signal: Signal, deps: CollectorDeps) {
    this.#method = `/opentelemetry.proto.collector.${SERVICES[signal]}/Export`;
    const { host, tls, headers } = place;
    this.#channel = new GrpcChannel({
      ...deps,
      addresses: [{ kind: "tcp", host, port: portOf(place) }],
      tls,
      metadata: headers,
      keepAliveMs: KEEP_ALIVE_MS,
      keepAliveTimeoutMs: CONNECT_MS,
      limits: { connectMs: CONNECT_MS, firstMessageMs: REPLY_MS, quietMs: REPLY_MS },
    });
  }

  post(_headers: unknown, body: Uint8Array): Promise<CollectorOutcome> {
    return new Promise((resolve) => {
      const bytes = { encode: (message: Uint8Array) => message, decode: () => undefined };
      const call = this.#channel.open(this.#method, bytes, {
        // A partial success has no remedy.
        onMessage() {},
        onEnd: (status) => resolve(outcomeOfCall(status)),
      });
      call.send(body);
      call.halfClose();
    });
  }

  close(): void {
    this.#channel.close();
  }
}

function outcomeOfCall(status: GrpcStatus): CollectorOutcome {
  if (status.code === GRPC_STATUS.ok) return { kind: "taken" };
  const kind = PASSING_GRPC.has(status.code) ? "unreachable" : "refused";
  const fix = status.code === GRPC_STATUS.unimplemented
    ? NO_PIPELINE
    : status.code === GRPC_STATUS.unauthenticated
    ? NO_HEADERS
    : "";
  return { kind, reason: formatStatus(status) + fix };
}

class HttpLink implements CollectorLink {
  readonly #place: CollectorPlace;
  readonly #clock: Clock;
  readonly #pool: ClientPool<ReachedServer, DialFailure>;

  constructor(place: CollectorPlace, { engine, clock }: CollectorDeps) {
    const { host, tls } = this.#place = place;
    this.#clock = clock;
    const address = { kind: "tcp", host, port: portOf(place) } as const;
    this.#pool = new ClientPool({
      ...serverPoolOptions(clock),
      connectMs: CONNECT_MS,
      waitingLimit: WAITING_LIMIT,
      dial: (handler) => dialServer({ engine, address, tls, protocols: [] }, handler),
      version: "h1",
    });
  }

  async post(
    headers: Readonly<Record<string, string>>,
    body: Uint8Array,
  ): Promise<CollectorOutcome> {
    const { url, headers: own } = this.#place;
    const request = new CollectorRequest(url, { headers: { ...own, ...headers }, body });
    const late = this.#clock.after(REPLY_MS, () => request.fail(`no reply in ${REPLY_MS} ms`));
    const dial = this.#pool.reach({
      onDialled: (connection) => request.start(connection),
      onFailed: ({ reason }) => request.fail(reason),
    });
    try {
      return outcomeOf(await request.reply, this.#clock.now());
    } catch (error) {
      return { kind: "unreachable", reason: messageOf(error) };
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

function outcomeOf({ status, fields }: ResponseHead, nowMs: number): CollectorOutcome {
  if (status >= 200 && status < 300) return { kind: "taken" };
  const fix = status === 404 ? NO_PIPELINE : status === 401 || status === 403 ? NO_HEADERS : "";
  const reason = `the collector answered ${status}${fix}`;
  if (!PASSING.has(status)) return { kind: "refused", reason };
  const afterMs = retryAfterMs(fieldOf(fields, "retry-after") ?? "", nowMs);
  return { kind: "unreachable", reason, ...(afterMs !== undefined && { afterMs }) };
}

/** Seconds, or a date (RFC 9110 10.2.3). */
function retryAfterMs(text: string, nowMs: number): number | undefined {
  if (text === "") return undefined;
  const ms = /^\d{1,6}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), LONGEST_WAIT_MS);
}

class CollectorRequest implements ResponseEvents {
  readonly #url: URL;
  readonly #post: { readonly headers: Readonly<Record<string, string>>; readonly body: Uint8Array };
  readonly #reply = Promise.withResolvers<ResponseHead>();
  #exchange: ReturnType<KeptConnection<ReachedServer>["request"]> | undefined;
  #head: ResponseHead | undefined;

  constructor(url: URL, post: {
    readonly headers: Readonly<Record<string, string>>;
    readonly body: Uint8Array;
  }) {
    this.#url = url;
    this.#post = post;
  }

  get reply(): Promise<ResponseHead> {
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
    this.#reply.reject(new Error(`cannot reach ${this.#url.origin}: ${fact}`));
    this.#exchange?.reset("cancelled");
  }

  onInformational(): void {}

  onResponse(head: ResponseHead, ends: boolean): void {
    this.#head = head;
    if (ends) this.onEnd();
  }

  /** Only the status of a reply is used. */
  onData(): void {}

  onEnd(): void {
    if (this.#head) this.#reply.resolve(this.#head);
  }

  onDrain(): void {}

  onReset(_reason: ResetReason, detail: string): void {
    this.fail(detail || "the connection ended");
  }
}
