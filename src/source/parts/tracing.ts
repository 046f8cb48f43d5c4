/** Telemetry of a proxy for collectors: the flags of its process count before its configuration. @module */

import { TRACE_FORMS } from "../../http/mod.ts";
import {
  type Content,
  keepPart,
  type TelemetryChoice,
  type TelemetryCollector,
  type TelemetryPart,
  type TracePropagation,
  type TracingChoice,
  type TracingPart,
} from "../../snapshot/mod.ts";
import type { PartContext } from "./own_credentials.ts";

const DEFAULT_PROPAGATION: TracePropagation = {
  read: TRACE_FORMS,
  write: ["tracecontext"],
  writesCarried: true,
};

/** `null`: no collector is configured. */
export function tracingPart(
  process: TracingChoice | undefined,
  configured: TracingChoice | undefined,
  { previous, version, service }: Omit<PartContext, "refused"> & { readonly service: string },
): TracingPart | null {
  const { collector = "off", ...choice } = { ...configured, ...process };
  if (collector === "off") return null;
  const { ratio = 1, atMost = 1, obeysCaller = true, connections = false } = choice;
  const content: Content<TracingPart> = {
    collector,
    sampling: { ratio, atMost, obeysCaller },
    propagation: choice.propagation ?? DEFAULT_PROPAGATION,
    connections,
    service: choice.service ?? service,
    resource: { ...configured?.resource, ...process?.resource },
  };
  return keepPart<TracingPart>(previous?.tracing, content, version);
}

const INTERVAL_MS = 60_000;

/** `null`: neither metrics nor logs are sent. */
export function telemetryPart(
  process: TelemetryChoice = {},
  configured: TelemetryChoice = {},
  { previous, version, service }: Omit<PartContext, "refused"> & { readonly service: string },
): TelemetryPart | null {
  const metrics = signalOf(process.metrics, configured.metrics, service);
  const logs = signalOf(process.logs, configured.logs, service);
  if (!metrics && !logs) return null;
  const content: Content<TelemetryPart> = {
    metrics: metrics && { intervalMs: INTERVAL_MS, ...metrics },
    logs: logs && { access: false, ...logs },
  };
  return keepPart<TelemetryPart>(previous?.telemetry, content, version);
}

function signalOf<Choice extends NonNullable<TelemetryChoice["metrics" | "logs"]>>(
  process: Choice | undefined,
  configured: Choice | undefined,
  service: string,
) {
  const { collector = "off", ...choice } = { service, ...configured, ...process } as
    & Choice
    & { readonly service: string };
  if (collector === "off") return null;
  const resource = { ...configured?.resource, ...process?.resource };
  return { ...choice, collector, resource };
}

export const OTLP_PATHS = { traces: "/v1/traces", metrics: "/v1/metrics", logs: "/v1/logs" };
export const ZIPKIN_PATH = "/api/v2/spans";

/** OpenTelemetry's names of the protocols of OTLP. */
export const OTLP_PROTOCOLS: Readonly<Record<string, TelemetryCollector["format"]>> = {
  "http/protobuf": "otlp_protobuf",
  "http/json": "otlp_json",
  grpc: "otlp_grpc",
};

/** `1%`, `0.5%`; `undefined`: it is none. */
export function parseShare(text: string): number | undefined {
  const [, percent] = /^(\d{1,3}(?:\.\d{1,6})?)%$/.exec(text) ?? [];
  const share = Number(percent) / 100;
  return share <= 1 ? share : undefined;
}

/** A text is the reason why there is none. `addsPath`: to an address without a path, or to any. */
export function collectorOf(
  text: string,
  { addsPath, path = OTLP_PATHS.traces, headers = {} }: {
    readonly addsPath: "to_bare" | "always" | "never";
    readonly path?: string;
    readonly headers?: Readonly<Record<string, string>>;
  },
): TelemetryCollector | string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    return "want an address such as http://127.0.0.1:4318";
  }
  if (url.username !== "" || url.password !== "") {
    return "it must not have a user and a password; give a header";
  }
  url.hash = "";
  const isBare = url.pathname === "/" && addsPath === "to_bare";
  if (isBare || addsPath === "always") url.pathname = url.pathname.replace(/\/$/, "") + path;
  const isZipkin = url.pathname.endsWith(ZIPKIN_PATH);
  if (isZipkin && path !== OTLP_PATHS.traces) {
    return "Zipkin takes spans only; give an address of OTLP";
  }
  const format = isZipkin ? "zipkin_json" : "otlp_protobuf";
  return { format, url: url.href, headers };
}
