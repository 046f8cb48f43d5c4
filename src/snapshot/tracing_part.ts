/** Telemetry for collectors: parts of the snapshot, and the choices of each source of configuration. @module */

import type { TraceForm } from "../http/mod.ts";

/** Spans of requests, and of connections where asked. */
export interface TracingPart {
  readonly version: number;
  readonly sampling: {
    /** Share of the traces that begin here, from 0 to 1. */
    readonly ratio: number;
    /** Share of the sampled requests, whoever decided; 1: all of them. */
    readonly atMost: number;
    /** A decision of the caller counts before `ratio`. */
    readonly obeysCaller: boolean;
  };
  readonly propagation: TracePropagation;
  /** Connections that carry bytes have spans, too. */
  readonly connections: boolean;
  readonly collector: TelemetryCollector;
  /** Name of the service in the spans. */
  readonly service: string;
  /** More attributes of the resource. */
  readonly resource: Readonly<Record<string, string>>;
}

export interface TracePropagation {
  /** Forms of headers that are read, in this order. */
  readonly read: readonly TraceForm[];
  readonly write: readonly TraceForm[];
  /** Forms that a request carries are written as well. */
  readonly writesCarried: boolean;
}

export interface TelemetryCollector {
  readonly format: "otlp_json" | "otlp_protobuf" | "otlp_grpc" | "zipkin_json";
  /** `http://127.0.0.1:4318/v1/traces`. */
  readonly url: string;
  /** Header fields of each request; their values are never shown. */
  readonly headers: Readonly<Record<string, string>>;
  /** Files for `https`: PEM of the CA, and of a client certificate with its key; absent: the system's CAs, none. */
  readonly files?: {
    readonly ca?: string;
    readonly certificate?: string;
    readonly key?: string;
  };
}

/** Settings of one source; an absent member leaves the choice to the next one. */
export interface TracingChoice {
  /** `"off"`: no spans, whatever the next source says. */
  readonly collector?: TelemetryCollector | "off";
  readonly ratio?: number;
  readonly atMost?: number;
  readonly obeysCaller?: boolean;
  readonly propagation?: TracePropagation;
  readonly connections?: boolean;
  readonly service?: string;
  readonly resource?: Readonly<Record<string, string>>;
}

export type CollectorFormat = TelemetryCollector["format"];

/** One of `every` lines that meet all conditions is written, and says so. */
export interface LogSamplingRule {
  /** `503`, or `5xx`. */
  readonly status?: string;
  /** Prefix of the path. */
  readonly path?: string;
  readonly slowMs?: number;
  /** Whether a rule or a limit refused it. */
  readonly isDenied?: boolean;
  readonly every: number;
}

/** Metrics and logs that are sent by OTLP. */
export interface TelemetryPart {
  readonly version: number;
  /** `null`: none are sent. */
  readonly metrics: (SignalExport & { readonly intervalMs: number }) | null;
  readonly logs:
    | (SignalExport & {
      readonly access: boolean;
      /** Rules for access records; absent: every one is sent. */
      readonly sampling?: readonly LogSamplingRule[];
    })
    | null;
}

interface SignalExport {
  readonly collector: TelemetryCollector;
  readonly service: string;
  readonly resource: Readonly<Record<string, string>>;
}

interface SignalChoice extends Pick<TracingChoice, "service" | "resource"> {
  /** `"off"`: nothing is sent, whatever the next source says. */
  readonly collector?: TelemetryCollector | "off";
}

/** As {@link TracingChoice}. */
export interface TelemetryChoice {
  readonly metrics?: SignalChoice & { readonly intervalMs?: number };
  /** `access`: a record of each request, too, as in an access log. */
  readonly logs?: SignalChoice & {
    readonly access?: boolean;
    readonly sampling?: readonly LogSamplingRule[];
  };
}
