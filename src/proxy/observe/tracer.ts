/**
 * Spans of exchanges and connections: each request gets its position in a trace before its head is sent on,
 * and a sampled one is handed over as a finished span when it ends.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { type Clock, type ErrorCode, originOf } from "../../base/mod.ts";
import {
  addField,
  addTrace,
  type ExchangeRecord,
  type ExchangeTrace,
  fieldOf,
  flagsText,
  isGrpc,
  quickDecision,
  readGrpcStatus,
  readTrace,
  removeField,
  type RequestHead,
  type SpanAttributes,
  type SpanEvent,
  type TracedListener,
  type TraceForm,
  type TracePosition,
  writeTrace,
} from "../../http/mod.ts";
import type { TraceCollector, TracingPart } from "../../snapshot/mod.ts";
import type { ConnectionRecord, Ending } from "./connection_record.ts";
import type { ConnectionObserver, ExchangeObserver } from "./observers.ts";

/** Plain data, sent to the main thread. */
export interface FinishedSpan extends TracePosition {
  readonly name: string;
  readonly kind: "server" | "client";
  /** Wall clock, with a fraction. */
  readonly startMs: number;
  readonly durationMs: number;
  readonly attributes: SpanAttributes;
  readonly events: readonly SpanEvent[];
  /** `""`: it did not fail. */
  readonly error: string;
}

/** Takes a span for a collector; it may be lost. Never throws or waits. */
export type TakeSpan = (
  span: FinishedSpan,
  to: { readonly format: TraceCollector["format"]; readonly service: string },
) => void;

const EVENTS_LIMIT = 16;
const TEXT_LIMIT = 512;
/** Digits of a trace id that decide whether it is sampled, and their number of values. */
const DECIDING_DIGITS = 13;
const DECIDING_VALUES = 2 ** (4 * DECIDING_DIGITS);
/** A change of the wall clock by more than this is no rounding. */
const CLOCK_STEP_MS = 2;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, https: 443 };

export class Tracer {
  readonly part: TracingPart;
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #take: (span: FinishedSpan) => void;
  readonly #ids = new TraceIds();
  readonly #writesOnlyW3c: boolean;
  /** Wall clock less monotonic clock. Milliseconds are cut off, so the largest difference is the nearest. */
  #wallAheadMs = -Infinity;

  constructor(part: TracingPart, { clock, take }: {
    readonly clock: Pick<Clock, "now" | "monotonic">;
    readonly take: TakeSpan;
  }) {
    this.part = part;
    this.#clock = clock;
    const { write } = part.propagation;
    this.#writesOnlyW3c = write.length === 1 && write[0] === "tracecontext";
    const to = { format: part.collector.format, service: part.service };
    this.#take = (span) => take(span, to);
  }

  /** Writes the position of a request into its head. The head was read, and nothing was changed. */
  begin(head: RequestHead, record: ExchangeRecord, listener: TracedListener): void {
    const { sampling, propagation } = this.part;
    const { fields } = head;
    const quick = quickDecision(fields, propagation.read);
    if (quick === "unsampled" && sampling.obeysCaller) return;
    if (quick === "none" && this.#writesOnlyW3c && !this.#ids.nextIsBelow(sampling.ratio)) {
      return addField(fields, "traceparent", this.#ids.unsampled());
    }
    const { parent, isSampled: isAsked, carried } = readTrace(fields, propagation.read);
    const decision = sampling.obeysCaller ? parent?.isSampled ?? isAsked : undefined;
    // The receiver reads the same headers, and comes to the same decision.
    if (decision === false) return;
    const own = this.#ids.next();
    const traceId = parent?.traceId ?? own.traceId;
    const isSampled = (decision ?? this.#isChosen(traceId)) && this.#isWithinLimit();
    const { spanId } = own;
    const position = { traceId, spanId, parentId: parent?.spanId ?? "", isSampled };
    if (carried.length === 0) addTrace(fields, position, propagation.write);
    else {
      writeTrace(fields, position, this.#formsFor(carried));
      // Its state belongs to a position that is not continued.
      if (parent?.form !== "tracecontext") removeField(fields, "tracestate");
    }
    if (isSampled) record.trace = { ...position, listener, events: [] };
  }

  #isChosen(traceId: string): boolean {
    const { ratio } = this.part.sampling;
    if (ratio >= 1 || ratio <= 0) return ratio >= 1;
    return Number.parseInt(traceId.slice(-DECIDING_DIGITS), 16) < ratio * DECIDING_VALUES;
  }

  #isWithinLimit(): boolean {
    const { atMost } = this.part.sampling;
    return atMost >= 1 || Math.random() < atMost;
  }

  #formsFor(carried: readonly TraceForm[]): readonly TraceForm[] {
    const { write, writesCarried } = this.part.propagation;
    if (!writesCarried) return write;
    const others = carried.filter((form) => !write.includes(form));
    return others.length > 0 ? [...write, ...others] : write;
  }

  readonly exchanges: ExchangeObserver = {
    reached(record) {
      if (!record.trace) return;
      const { trace, attempts, upstreamHost, upstreamStartAt, startedAt } = record;
      if (!trace || attempts < 2 || trace.events.length >= EVENTS_LIMIT) return;
      trace.events.push({
        name: "retry",
        afterMs: upstreamStartAt - startedAt,
        attributes: ["postern.attempt", attempts, "network.peer.address", upstreamHost],
      });
    },
    ended: (record) => {
      if (record.trace) this.#take(this.#spanOf(record, record.trace));
    },
  };

  readonly connections: ConnectionObserver = {
    ended: (record, ending) => {
      const isPlain = this.part.connections && !record.speaksHttp;
      const isProbe = ending.kind === "failed" && ending.code === "closed_early";
      if (!isPlain || isProbe) return;
      const ids = this.#ids.next();
      if (this.#isChosen(ids.traceId)) this.#take(this.#connectionSpan(ids, record, ending));
    },
  };

  #spanOf(record: ExchangeRecord, trace: ExchangeTrace): FinishedSpan {
    const { listener, events, ...position } = trace;
    const { startedAt, endAt, status, code, endedBy } = record;
    const grpc = grpcStatusOf(record);
    const isBroken = endedBy !== undefined && status === 0;
    const failed = status >= 500 || isBroken || GRPC_FAILURES.has(grpc ?? 0);
    return {
      ...position,
      name: `${listener.direction === "inbound" ? "ingress" : "egress"} ${listener.destination}`,
      kind: listener.direction === "inbound" ? "server" : "client",
      startMs: this.#wallMs(record.startMs, startedAt),
      durationMs: Math.max(0, endAt - startedAt),
      attributes: attributesOf(record, listener, grpc),
      events,
      error: failed ? code ?? (grpc === undefined ? `status ${status}` : `grpc ${grpc}`) : "",
    };
  }

  #connectionSpan(ids: NewIds, record: ConnectionRecord, ending: Ending): FinishedSpan {
    const { direction, destination, openedMs, relay, rule, source, endpoint, tlsVersion } = record;
    const nowMs = this.#clock.monotonic();
    const isInbound = direction === "inbound";
    const peer = addressOf(isInbound ? record.remote : endpoint);
    const attributes = new AttributeList()
      .add("network.transport", "tcp")
      .add("network.peer.address", peer.host)
      .add("network.peer.port", peer.port)
      .add("upstream_cluster", record.cluster || (isInbound ? "local_app" : destination))
      .add("postern.listener", record.listener)
      .add("postern.peer", isInbound ? source : "")
      .add("postern.intention", rule)
      .add("tls.protocol.version", tlsVersion.replace("TLSv", ""))
      .add("postern.received_bytes", relay?.receivedBytes ?? 0)
      .add("postern.sent_bytes", relay?.sentBytes ?? 0);
    const code: ErrorCode | undefined = ending.kind === "failed" ? ending.code : undefined;
    if (code !== undefined) attributes.add("error.type", code).add("postern.code", code);
    // The end that a caller chose is no failure of the service.
    const isFailure = code !== undefined && originOf(code) !== "downstream";
    return {
      ...ids,
      parentId: "",
      isSampled: true,
      name: `${isInbound ? "ingress" : "egress"} ${destination} tcp`,
      kind: isInbound ? "server" : "client",
      startMs: this.#wallMs(this.#clock.now() - (nowMs - openedMs), openedMs),
      durationMs: nowMs - openedMs,
      attributes: attributes.values,
      events: [],
      error: isFailure ? code : "",
    };
  }

  #wallMs(wallMs: number, monotonicMs: number): number {
    const aheadMs = wallMs - monotonicMs;
    const isStep = Math.abs(aheadMs - this.#wallAheadMs) > CLOCK_STEP_MS;
    if (isStep || aheadMs > this.#wallAheadMs) this.#wallAheadMs = aheadMs;
    return this.#wallAheadMs + monotonicMs;
  }
}

class AttributeList {
  readonly values: (string | number)[] = [];

  /** `""` and `undefined`: the attribute is left out. */
  add(name: string, value: string | number | undefined): this {
    if (value === undefined || value === "") return this;
    this.values.push(name, typeof value === "string" ? value.slice(0, TEXT_LIMIT) : value);
    return this;
  }
}

function attributesOf(
  record: ExchangeRecord,
  listener: TracedListener,
  grpc: number | undefined,
): SpanAttributes {
  const { request, downstream, status, code, flags } = record;
  const isInbound = listener.direction === "inbound";
  const server = addressOf(request?.authority ?? "");
  const peer = addressOf(isInbound ? downstream.remote : record.upstreamHost);
  const scheme = request?.scheme ?? "";
  const flagText = flagsText(flags);
  return new AttributeList()
    .add("http.request.method", request?.method)
    .add("url.scheme", scheme)
    .add("url.path", pathOf(request?.path ?? ""))
    .add("http.response.status_code", status > 0 ? status : undefined)
    .add("server.address", server.host)
    .add("server.port", server.port ?? DEFAULT_PORTS[scheme])
    .add("network.protocol.name", "http")
    .add("network.protocol.version", request?.version.slice("HTTP/".length))
    .add("network.peer.address", peer.host)
    .add("network.peer.port", peer.port)
    .add("http.request.body.size", record.receivedBytes)
    .add("http.response.body.size", record.sentBytes)
    .add("rpc.system", request && isGrpc(request.fields) ? "grpc" : undefined)
    .add("rpc.grpc.status_code", grpc)
    .add("error.type", code ?? (status >= 500 ? String(status) : undefined))
    .add("upstream_cluster", record.upstreamCluster)
    .add("response_flags", flagText === "" ? "-" : flagText)
    .add("guid:x-request-id", request && fieldOf(request.fields, "x-request-id"))
    .add("postern.listener", listener.name)
    .add("postern.peer", isInbound ? downstream.peer?.uri : record.upstream?.identity)
    .add("postern.intention", record.rule)
    .add("postern.route", record.route)
    .add("postern.attempts", record.attempts > 1 ? record.attempts : undefined)
    .add("postern.code", code)
    .values;
}

/** Codes of a server's faults, as the conventions for gRPC list them. */
const GRPC_FAILURES: ReadonlySet<number> = new Set([2, 4, 12, 13, 14, 15]);

function grpcStatusOf({ request, response, responseTrailers }: ExchangeRecord): number | undefined {
  if (!request || !isGrpc(request.fields)) return undefined;
  return readGrpcStatus(responseTrailers ?? []) ?? readGrpcStatus(response?.fields ?? []);
}

/** A query may hold secrets. */
function pathOf(path: string): string {
  const at = path.indexOf("?");
  return at < 0 ? path : path.slice(0, at);
}

/** `10.0.0.7:40312`, `[::1]:80`, `db`. */
function addressOf(text: string): { readonly host: string; readonly port: number | undefined } {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]*))(?::(\d+))?$/.exec(text) ?? [];
  return { host: bracketed ?? plain ?? text, port: port === undefined ? undefined : Number(port) };
}

interface NewIds {
  readonly traceId: string;
  readonly spanId: string;
}

/** Positions made at a time, by one call for random bytes. */
const POOLED = 64;
const ID_BYTES = 24;
const TRACE_BYTES = 16;
const SPAN_BYTES = 8;
/** `00-`, the trace id, `-`, the span id, `-00`. */
const PARENT_CHARS = 55;
const TRACE_AT = 3;
const SPAN_AT = 36;
const TEMPLATE = `00-${"0".repeat(2 * TRACE_BYTES)}-${"0".repeat(2 * SPAN_BYTES)}-00`;
/** The two digits of each byte. */
const HIGH = new Uint8Array(256);
const LOW = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  const digits = byte.toString(16).padStart(2, "0");
  HIGH[byte] = digits.charCodeAt(0);
  LOW[byte] = digits.charCodeAt(1);
}

/**
 * Random ids of traces and spans. Most requests are not sampled and get no more than the text of their
 * `traceparent`: a slice of one text that has many of them.
 */
class TraceIds {
  readonly #random = new Uint8Array(POOLED * ID_BYTES);
  readonly #texts = Buffer.from(TEMPLATE.repeat(POOLED), "latin1");
  #pool = "";
  /** The position that is given next. */
  #next = POOLED;

  /** Whether the next trace id is chosen; asking does not use it up. */
  nextIsBelow(ratio: number): boolean {
    if (ratio >= 1 || ratio <= 0) return ratio >= 1;
    if (this.#next >= POOLED) this.#fill();
    const random = this.#random;
    const end = this.#next * ID_BYTES + TRACE_BYTES;
    // The last 52 bits, as a whole number: the digits that `#isChosen` reads.
    let value = (random[end - 7] ?? 0) & 0xf;
    for (let at = end - 6; at < end; at++) value = value * 256 + (random[at] ?? 0);
    return value < ratio * DECIDING_VALUES;
  }

  /** A `traceparent` with new ids and the flags of a request that is not sampled. */
  unsampled(): string {
    if (this.#next >= POOLED) this.#fill();
    const from = this.#next++ * PARENT_CHARS;
    return this.#pool.slice(from, from + PARENT_CHARS);
  }

  next(): NewIds {
    const parent = this.unsampled();
    return { traceId: parent.slice(TRACE_AT, SPAN_AT - 1), spanId: parent.slice(SPAN_AT, -3) };
  }

  #fill(): void {
    const random = crypto.getRandomValues(this.#random);
    const texts: Uint8Array = this.#texts;
    for (let from = 0, to = 0; from < random.length; from += ID_BYTES, to += PARENT_CHARS) {
      writeHex(random, { from, bytes: TRACE_BYTES, texts, to: to + TRACE_AT });
      writeHex(random, { from: from + TRACE_BYTES, bytes: SPAN_BYTES, texts, to: to + SPAN_AT });
    }
    this.#pool = this.#texts.toString("latin1");
    this.#next = 0;
  }
}

function writeHex(random: Uint8Array, { from, bytes, texts, to }: {
  readonly from: number;
  readonly bytes: number;
  readonly texts: Uint8Array;
  readonly to: number;
}): void {
  for (let at = 0; at < bytes; at++) {
    const byte = random[from + at] ?? 0;
    texts[to + 2 * at] = HIGH[byte] ?? 0;
    texts[to + 2 * at + 1] = LOW[byte] ?? 0;
  }
}
