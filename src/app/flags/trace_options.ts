/**
 * Tracing as flags and OpenTelemetry's environment variables ask for it. Flags count first; a bad flag is
 * refused, and a variable that cannot be used is named and ignored, as OpenTelemetry specifies.
 *
 * @module
 */

import { defined } from "../../base/schema.ts";
import { TRACE_FORMS, type TraceForm } from "../../http/mod.ts";
import type { TraceCollector, TracingChoice } from "../../snapshot/mod.ts";
import { collectorOf, OTLP_PROTOCOLS, parseShare, ZIPKIN_PATH } from "../../source/mod.ts";
import { type FlagValues, quote, usage } from "./parse_flags.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export interface TracingOptions {
  /** Absent: neither flags nor variables say anything. */
  readonly tracing?: TracingChoice | undefined;
  readonly warnings: readonly string[];
}

const RESOURCE_LIMIT = 64;

/** Throws `usage` for a flag that cannot be used. */
export function readTracing(flags: FlagValues, env: Environment): TracingOptions {
  const variables = new Variables(env);
  const choice = { ...variables.read(), ...readFlags(flags) };
  const { warnings } = variables;
  return Object.keys(choice).length > 0 ? { tracing: choice, warnings } : { warnings };
}

function readFlags(flags: FlagValues): TracingChoice {
  const to = flags.text("trace-to");
  const sample = flags.text("trace-sample");
  return {
    ...(to !== undefined && { collector: to === "off" ? "off" : collectorOfFlag(to) }),
    ...(sample !== undefined && { ratio: shareOf(sample) }),
    ...(flags.on("trace-connections") && { connections: true }),
  };
}

function collectorOfFlag(text: string): TraceCollector {
  const collector = collectorOf(text, { addsPath: "to_bare" });
  if (typeof collector !== "string") return collector;
  throw usage(`Cannot read -trace-to ${quote(text)}: ${collector}`);
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
};

class Variables {
  readonly warnings: string[] = [];
  readonly #env: Environment;

  constructor(env: Environment) {
    this.#env = env;
  }

  read(): TracingChoice {
    if (this.#text("OTEL_SDK_DISABLED")?.toLowerCase() === "true") return { collector: "off" };
    const collector = this.#collector();
    if (collector) {
      for (const [name, reason] of Object.entries(UNUSED)) {
        if (this.#text(name) !== undefined) this.#ignore(name, reason);
      }
    }
    const service = this.#text("OTEL_SERVICE_NAME");
    const { "service.name": named, ...resource } = this.#pairs("OTEL_RESOURCE_ATTRIBUTES");
    const name = service ?? named;
    const forms = this.#forms();
    return {
      ...(collector && { collector }),
      ...this.#sampling(),
      ...(forms && { propagation: { read: forms, write: forms, writesCarried: false } }),
      ...(name !== undefined && { service: name }),
      ...(Object.keys(resource).length > 0 && { resource }),
    };
  }

  /** An empty variable counts as absent. */
  #text(name: string): string | undefined {
    return this.#env[name]?.trim() || undefined;
  }

  /** A variable for traces counts before the one for everything. */
  #signal(suffix: string): { readonly name: string; readonly text: string } | undefined {
    for (const name of [`OTEL_EXPORTER_OTLP_TRACES_${suffix}`, `OTEL_EXPORTER_OTLP_${suffix}`]) {
      const text = this.#text(name);
      if (text !== undefined) return { name, text };
    }
    return undefined;
  }

  #ignore(name: string, reason: string): void {
    this.warnings.push(`${name} is ignored: ${reason}`);
  }

  #collector(): TraceCollector | "off" | undefined {
    const exporter = this.#text("OTEL_TRACES_EXPORTER") ?? "otlp";
    if (exporter === "none") return "off";
    if (exporter === "zipkin") return this.#zipkin();
    if (exporter !== "otlp") {
      this.#ignore("OTEL_TRACES_EXPORTER", `${quote(exporter)} is none of otlp, zipkin and none`);
      return undefined;
    }
    const endpoint = this.#signal("ENDPOINT");
    if (!endpoint) return undefined;
    const format = this.#format();
    const headers = this.#pairs("OTEL_EXPORTER_OTLP_HEADERS");
    Object.assign(headers, this.#pairs("OTEL_EXPORTER_OTLP_TRACES_HEADERS"));
    const isAsItIs = endpoint.name.includes("_TRACES_") || format === "otlp_grpc";
    const addsPath = isAsItIs ? "never" : "always";
    const collector = collectorOf(endpoint.text, { addsPath, headers });
    if (typeof collector === "string") return this.#usable(endpoint.name, collector);
    const files = this.#files();
    return { ...collector, format, ...(Object.keys(files).length > 0 && { files }) };
  }

  #format(): TraceCollector["format"] {
    const { name = "", text = "http/protobuf" } = this.#signal("PROTOCOL") ?? {};
    const format = OTLP_PROTOCOLS[text];
    if (format) return format;
    this.#ignore(name, `${quote(text)} is none of ${Object.keys(OTLP_PROTOCOLS).join(", ")}`);
    return "otlp_protobuf";
  }

  #files(): NonNullable<TraceCollector["files"]> {
    const ca = this.#signal("CERTIFICATE")?.text;
    const certificate = this.#signal("CLIENT_CERTIFICATE")?.text;
    const key = this.#signal("CLIENT_KEY")?.text;
    return defined({ ca, certificate, key });
  }

  #zipkin(): TraceCollector | undefined {
    const name = "OTEL_EXPORTER_ZIPKIN_ENDPOINT";
    const text = this.#text(name) ?? `http://localhost:9411${ZIPKIN_PATH}`;
    const collector = collectorOf(text, { addsPath: "never" });
    return this.#usable(
      name,
      typeof collector === "string" ? collector : { ...collector, format: "zipkin_json" },
    );
  }

  #usable(name: string, collector: TraceCollector | string): TraceCollector | undefined {
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
