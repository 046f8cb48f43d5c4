/**
 * Traces, metrics and logs as flags and OpenTelemetry's environment variables ask for them. Flags count first; a
 * bad flag is refused, and a variable that cannot be used is named and ignored, as OpenTelemetry specifies.
 *
 * @module
 */

import { defined } from "../../base/schema.ts";
import { TRACE_FORMS, type TraceForm } from "../../http/mod.ts";
import type { TelemetryChoice, TelemetryCollector, TracingChoice } from "../../snapshot/mod.ts";
import {
  collectorOf,
  OTLP_PATHS,
  OTLP_PROTOCOLS,
  parseShare,
  ZIPKIN_PATH,
} from "../../source/mod.ts";
import { type FlagValues, quote, usage } from "./parse_flags.ts";
import { readDurationMs } from "./read_values.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export interface TelemetryOptions {
  /** Absent: neither flags nor variables say anything. */
  readonly tracing?: TracingChoice | undefined;
  readonly telemetry?: TelemetryChoice | undefined;
  readonly warnings: readonly string[];
}

type SignalName = keyof typeof OTLP_PATHS;
type MetricsChoice = NonNullable<TelemetryChoice["metrics"]>;
type LogsChoice = NonNullable<TelemetryChoice["logs"]>;

const RESOURCE_LIMIT = 64;
const LEAST_INTERVAL_MS = 1_000;

/** Throws `usage` for a flag that cannot be used. */
export function readTelemetry(flags: FlagValues, env: Environment): TelemetryOptions {
  const variables = new Variables(env);
  const tracing = { ...variables.read(), ...readFlags(flags) };
  const metrics = { ...variables.metrics(), ...readMetricsFlags(flags) };
  const logs = { ...variables.logs(), ...readLogsFlags(flags) };
  const telemetry = defined({ metrics: unlessEmpty(metrics), logs: unlessEmpty(logs) });
  const { warnings } = variables;
  return defined({
    tracing: unlessEmpty(tracing),
    telemetry: unlessEmpty(telemetry),
    warnings: [...new Set(warnings)],
  });
}

function unlessEmpty<Choice extends object>(choice: Choice): Choice | undefined {
  return Object.keys(choice).length > 0 ? choice : undefined;
}

function readFlags(flags: FlagValues): TracingChoice {
  const sample = flags.text("trace-sample");
  return {
    ...collectorOfFlag(flags, "trace-to", "traces"),
    ...(sample !== undefined && { ratio: shareOf(sample) }),
    ...(flags.on("trace-connections") && { connections: true }),
  };
}

function readMetricsFlags(flags: FlagValues): MetricsChoice {
  return {
    ...collectorOfFlag(flags, "metrics-to", "metrics"),
    ...(flags.given("metrics-interval") && {
      intervalMs: readDurationMs(flags, "metrics-interval", { atLeastMs: LEAST_INTERVAL_MS }),
    }),
  };
}

function readLogsFlags(flags: FlagValues): LogsChoice {
  return {
    ...collectorOfFlag(flags, "logs-to", "logs"),
    ...(flags.on("logs-access") && { access: true }),
  };
}

function collectorOfFlag(
  flags: FlagValues,
  flag: string,
  signal: SignalName,
): { readonly collector?: TelemetryCollector | "off" } {
  const text = flags.text(flag);
  if (text === undefined) return {};
  if (text === "off") return { collector: "off" };
  const collector = collectorOf(text, { addsPath: "to_bare", path: OTLP_PATHS[signal] });
  if (typeof collector !== "string") return { collector };
  throw usage(`Cannot read -${flag} ${quote(text)}: ${collector}`);
}

function shareOf(text: string): number {
  const share = parseShare(text);
  if (share !== undefined) return share;
  throw usage(`Cannot read -trace-sample ${quote(text)}: want a share from 0% to 100%, such as 1%`);
}

/** OpenTelemetry's names of propagators. `baggage` is carried by every proxy. */
const PROPAGATORS: Readonly<Record<string, readonly TraceForm[]>> = {
  tracecontext: ["tracecontext"],
  b3: ["b3"],
  b3multi: ["b3multi"],
  datadog: ["datadog"],
  baggage: [],
  none: [],
};

const SAMPLERS: Readonly<
  Record<string, { readonly ratio: number | "argument"; readonly obeysCaller: boolean }>
> = {
  always_on: { ratio: 1, obeysCaller: false },
  always_off: { ratio: 0, obeysCaller: false },
  traceidratio: { ratio: "argument", obeysCaller: false },
  parentbased_always_on: { ratio: 1, obeysCaller: true },
  parentbased_always_off: { ratio: 0, obeysCaller: true },
  parentbased_traceidratio: { ratio: "argument", obeysCaller: true },
};

/** Variables that have no effect here. */
const UNUSED = {
  OTEL_EXPORTER_OTLP_INSECURE: "the address says whether TLS is used",
  OTEL_EXPORTER_OTLP_TRACES_INSECURE: "the address says whether TLS is used",
  OTEL_EXPORTER_OTLP_METRICS_INSECURE: "the address says whether TLS is used",
  OTEL_EXPORTER_OTLP_LOGS_INSECURE: "the address says whether TLS is used",
};
/** Values that are followed, of variables that allow others. */
const ONLY: Readonly<Record<string, string>> = {
  OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "cumulative",
  OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION: "explicit_bucket_histogram",
};

class Variables {
  readonly warnings: string[] = [];
  readonly #env: Environment;

  constructor(env: Environment) {
    this.#env = env;
  }

  read(): TracingChoice {
    const signal = this.#signalChoice("traces");
    if (this.#isDisabled) return signal;
    const forms = this.#forms();
    return {
      ...signal,
      ...this.#sampling(),
      ...(forms && { propagation: { read: forms, write: forms, writesCarried: false } }),
    };
  }

  metrics(): MetricsChoice {
    const signal = this.#signalChoice("metrics");
    const isSent = signal.collector !== undefined && signal.collector !== "off";
    if (!isSent) return signal;
    for (const [name, value] of Object.entries(ONLY)) {
      const text = this.#text(name);
      if (text !== undefined && text !== value) this.#ignore(name, `only ${value} is sent`);
    }
    const name = "OTEL_METRIC_EXPORT_INTERVAL";
    const text = this.#text(name);
    if (text === undefined) return signal;
    const intervalMs = Number(text);
    const isUsable = /^\d{1,9}$/.test(text) && intervalMs >= LEAST_INTERVAL_MS;
    if (isUsable) return { ...signal, intervalMs };
    this.#ignore(name, `${quote(text)} is no number of milliseconds from ${LEAST_INTERVAL_MS} on`);
    return signal;
  }

  logs(): LogsChoice {
    return this.#signalChoice("logs");
  }

  #signalChoice(signal: SignalName): Pick<MetricsChoice, "collector" | "service" | "resource"> {
    if (this.#isDisabled) return { collector: "off" };
    const collector = this.#collector(signal);
    if (collector) {
      for (const [name, reason] of Object.entries(UNUSED)) {
        if (this.#text(name) !== undefined) this.#ignore(name, reason);
      }
    }
    const service = this.#text("OTEL_SERVICE_NAME");
    const { "service.name": named, ...resource } = this.#pairs("OTEL_RESOURCE_ATTRIBUTES");
    const name = service ?? named;
    return {
      ...(collector && { collector }),
      ...(name !== undefined && { service: name }),
      ...(Object.keys(resource).length > 0 && { resource }),
    };
  }

  get #isDisabled(): boolean {
    return this.#text("OTEL_SDK_DISABLED")?.toLowerCase() === "true";
  }

  /** An empty variable counts as absent. */
  #text(name: string): string | undefined {
    return this.#env[name]?.trim() || undefined;
  }

  /** A variable for the signal counts before the one for everything. */
  #ofSignal(
    signal: SignalName,
    suffix: string,
  ): { readonly name: string; readonly text: string } | undefined {
    const own = signal.toUpperCase();
    for (const name of [`OTEL_EXPORTER_OTLP_${own}_${suffix}`, `OTEL_EXPORTER_OTLP_${suffix}`]) {
      const text = this.#text(name);
      if (text !== undefined) return { name, text };
    }
    return undefined;
  }

  #ignore(name: string, reason: string): void {
    this.warnings.push(`${name} is ignored: ${reason}`);
  }

  #collector(signal: SignalName): TelemetryCollector | "off" | undefined {
    const own = signal.toUpperCase();
    const exporterName = `OTEL_${own}_EXPORTER`;
    const exporter = this.#text(exporterName) ?? "otlp";
    if (exporter === "none") return "off";
    if (exporter === "zipkin" && signal === "traces") return this.#zipkin();
    if (exporter !== "otlp") {
      const known = signal === "traces" ? "none of otlp, zipkin and none" : "neither otlp nor none";
      this.#ignore(exporterName, `${quote(exporter)} is ${known}`);
      return undefined;
    }
    const endpoint = this.#ofSignal(signal, "ENDPOINT");
    if (!endpoint) return undefined;
    const format = this.#format(signal);
    const headers = this.#pairs("OTEL_EXPORTER_OTLP_HEADERS");
    Object.assign(headers, this.#pairs(`OTEL_EXPORTER_OTLP_${own}_HEADERS`));
    const isAsItIs = endpoint.name.includes(`_${own}_`) || format === "otlp_grpc";
    const addsPath = isAsItIs ? "never" : "always";
    const path = OTLP_PATHS[signal];
    const collector = collectorOf(endpoint.text, { addsPath, path, headers });
    if (typeof collector === "string") return this.#usable(endpoint.name, collector);
    const files = this.#files(signal);
    return { ...collector, format, ...(Object.keys(files).length > 0 && { files }) };
  }

  #format(signal: SignalName): TelemetryCollector["format"] {
    const { name = "", text = "http/protobuf" } = this.#ofSignal(signal, "PROTOCOL") ?? {};
    const format = OTLP_PROTOCOLS[text];
    if (format) return format;
    this.#ignore(name, `${quote(text)} is none of ${Object.keys(OTLP_PROTOCOLS).join(", ")}`);
    return "otlp_protobuf";
  }

  #files(signal: SignalName): NonNullable<TelemetryCollector["files"]> {
    const ca = this.#ofSignal(signal, "CERTIFICATE")?.text;
    const certificate = this.#ofSignal(signal, "CLIENT_CERTIFICATE")?.text;
    const key = this.#ofSignal(signal, "CLIENT_KEY")?.text;
    return defined({ ca, certificate, key });
  }

  #zipkin(): TelemetryCollector | undefined {
    const name = "OTEL_EXPORTER_ZIPKIN_ENDPOINT";
    const text = this.#text(name) ?? `http://localhost:9411${ZIPKIN_PATH}`;
    const collector = collectorOf(text, { addsPath: "never" });
    return this.#usable(
      name,
      typeof collector === "string" ? collector : { ...collector, format: "zipkin_json" },
    );
  }

  #usable(name: string, collector: TelemetryCollector | string): TelemetryCollector | undefined {
    if (typeof collector !== "string") return collector;
    this.#ignore(name, collector);
    return undefined;
  }

  #sampling(): Pick<TracingChoice, "ratio" | "obeysCaller"> {
    const name = this.#text("OTEL_TRACES_SAMPLER");
    if (name === undefined) return {};
    const sampler = SAMPLERS[name];
    if (!sampler) {
      this.#ignore(
        "OTEL_TRACES_SAMPLER",
        `${quote(name)} is none of ${Object.keys(SAMPLERS).join(", ")}`,
      );
      return {};
    }
    const { obeysCaller } = sampler;
    if (sampler.ratio !== "argument") return { ratio: sampler.ratio, obeysCaller };
    const text = this.#text("OTEL_TRACES_SAMPLER_ARG") ?? "1";
    const ratio = Number(text);
    if (ratio >= 0 && ratio <= 1) return { ratio, obeysCaller };
    this.#ignore("OTEL_TRACES_SAMPLER_ARG", `${quote(text)} is no number from 0 to 1`);
    return { ratio: 1, obeysCaller };
  }

  #forms(): readonly TraceForm[] | undefined {
    const text = this.#text("OTEL_PROPAGATORS");
    if (text === undefined) return undefined;
    const names = text.split(",").map((name) => name.trim()).filter((name) => name !== "");
    const unknown = names.filter((name) => !Object.hasOwn(PROPAGATORS, name));
    if (unknown.length > 0) {
      const known = `want some of ${TRACE_FORMS.join(", ")}`;
      this.#ignore(`${unknown.map(quote).join(", ")} in OTEL_PROPAGATORS`, known);
    }
    return [...new Set(names.flatMap((name) => PROPAGATORS[name] ?? []))];
  }

  /** `key=value,key=value` with values as in URLs. Values are not shown: headers hold secrets. */
  #pairs(name: string): Record<string, string> {
    const pairs: Record<string, string> = {};
    const items = this.#text(name)?.split(",").slice(0, RESOURCE_LIMIT) ?? [];
    for (const item of items) {
      const at = item.indexOf("=");
      const key = item.slice(0, Math.max(at, 0)).trim();
      const value = decoded(item.slice(at + 1).trim());
      const isHeader = name.endsWith("HEADERS");
      const isUsable = key !== "" && value !== undefined &&
        (!isHeader || HEADER_NAME.test(key) && HEADER_VALUE.test(value));
      if (isUsable) pairs[isHeader ? key.toLowerCase() : key] = value;
      else this.#ignore(`an entry of ${name}`, "it is no key=value");
    }
    return pairs;
  }
}

const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
