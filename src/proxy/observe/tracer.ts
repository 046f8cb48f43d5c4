/**
 * Spans of exchanges and connections: each request gets its position in a trace before its head is sent on,
 * and a sampled one is handed over as a finished span when it ends.
 *
 * @module
 */

import { type Clock, type ErrorCode, originOf } from "../../base/mod.ts";
import {
  addField,
  addTrace,
  type ChildSpan,
  type ExchangeRecord,
  type ExchangeTrace,
  quickDecision,
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
import type { LayerDecided } from "../../plugin/mod.ts";
import type { TelemetryCollector, TracingPart } from "../../snapshot/mod.ts";
import type { ConnectionRecord, Ending } from "./connection_record.ts";
import type { ConnectionObserver, ExchangeObserver } from "./observers.ts";
import {
  attributesOf,
  connectionAttributes,
  GRPC_FAILURES,
  grpcStatusOf,
} from "./span_attributes.ts";
import { DECIDING_DIGITS, DECIDING_VALUES, type NewIds, TraceIds } from "./trace_ids.ts";

/** Plain data, sent to the main thread. */
export interface FinishedSpan extends TracePosition {
  readonly name: string;
  /** `internal`: a plugin made it. */
  readonly kind: "server" | "client" | "internal";
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
  to: { readonly format: TelemetryCollector["format"]; readonly service: string },
) => void;

const EVENTS_LIMIT = 16;
/** A change of the wall clock by more than this is no rounding. */
const CLOCK_STEP_MS = 2;

/** Adds an event for each plugin that decides the request of a span, or fails. */
export function pluginEvents(
  { events }: ExchangeTrace,
  startedAt: number,
  clock: Pick<Clock, "monotonic">,
): LayerDecided {
  return ({ name, phase }, { kind, code }) => {
    if (events.length >= EVENTS_LIMIT) return;
    const attributes = ["postern.plugin", name, "postern.phase", phase, "postern.action", kind];
    if (code !== undefined) attributes.push("postern.code", code);
    events.push({ name: "plugin", afterMs: clock.monotonic() - startedAt, attributes });
  };
}

export class Tracer {
  readonly part: TracingPart;
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #now: () => number;
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
    this.#now = () => clock.monotonic();
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
    if (isSampled) record.trace = { ...position, listener, events: [], now: this.#now };
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
      const { trace } = record;
      if (!trace) return;
      const { attempts, upstreamHost, upstreamStartAt, startedAt } = record;
      if (attempts < 2 || trace.events.length >= EVENTS_LIMIT) return;
      trace.events.push({
        name: "retry",
        afterMs: upstreamStartAt - startedAt,
        attributes: ["postern.attempt", attempts, "network.peer.address", upstreamHost],
      });
    },
    ended: (record) => {
      const { trace } = record;
      if (!trace) return;
      this.#take(this.#spanOf(record, trace));
      if (trace.children) {
        for (const child of trace.children) this.#takeChild(record, trace, child);
      }
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

  #takeChild(
    { startMs, startedAt, endAt }: ExchangeRecord,
    { traceId, spanId: parentId, isSampled }: ExchangeTrace,
    child: ChildSpan,
  ): void {
    this.#take({
      traceId,
      spanId: child.spanId,
      parentId,
      isSampled,
      name: child.name,
      kind: "internal",
      startMs: this.#wallMs(startMs, startedAt) + child.startedAt - startedAt,
      durationMs: Math.max(0, Math.min(child.endAt ?? endAt, endAt) - child.startedAt),
      attributes: child.attributes,
      events: [],
      error: "",
    });
  }

  #connectionSpan(ids: NewIds, record: ConnectionRecord, ending: Ending): FinishedSpan {
    const { direction, destination, openedMs } = record;
    const nowMs = this.#clock.monotonic();
    const isInbound = direction === "inbound";
    const code: ErrorCode | undefined = ending.kind === "failed" ? ending.code : undefined;
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
      attributes: connectionAttributes(record, code),
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
