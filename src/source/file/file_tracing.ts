/** `tracing`, `metrics` and `logs` of a configuration file: what goes to which collector. @module */

import * as v from "valibot";
import { defined, duration, object, text } from "../../base/schema.ts";
import { TRACE_FORMS } from "../../http/mod.ts";
import type { TelemetryChoice, TelemetryCollector, TracingChoice } from "../../snapshot/mod.ts";
import { LOG_SAMPLING } from "../parts/log_sampling.ts";
import { collectorOf, OTLP_PATHS, OTLP_PROTOCOLS, parseShare } from "../parts/tracing.ts";

const PROTOCOLS = Object.keys(OTLP_PROTOCOLS);

/** Keys of every signal. */
const SIGNAL = {
  to: text(),
  protocol: v.optional(
    v.picklist(PROTOCOLS, `must be ${PROTOCOLS.join(", ")}`),
    "http/protobuf",
  ),
  headers: v.optional(v.record(v.pipe(text(), v.toLowerCase()), text()), {}),
  caFile: v.optional(text()),
  certFile: v.optional(text()),
  keyFile: v.optional(text()),
  service: v.optional(text()),
  resource: v.optional(v.record(text(), text())),
};
/** OpenTelemetry's readers of metrics are no faster either. */
const LEAST_INTERVAL_MS = 1_000;

export const FILE_TRACING = v.pipe(
  object({
    ...SIGNAL,
    sample: v.optional(v.pipe(
      text(),
      v.check((share) => parseShare(share) !== undefined, "must be a share such as 1%"),
      v.transform((share) => parseShare(share) ?? 1),
    )),
    propagators: v.optional(
      v.array(v.picklist(TRACE_FORMS, `must be ${TRACE_FORMS.join(", ")}`)),
    ),
    connections: v.optional(v.boolean("must be true or false")),
  }),
  reachable(OTLP_PATHS.traces),
  v.transform((given): TracingChoice => {
    const { sample: ratio, propagators: forms, connections, service, resource } = given;
    return defined({
      collector: usableIn(given, OTLP_PATHS.traces),
      propagation: forms && { read: forms, write: forms, writesCarried: false },
      ratio,
      connections,
      service,
      resource,
    });
  }),
);

export const FILE_METRICS = v.pipe(
  object({ ...SIGNAL, interval: v.optional(duration(LEAST_INTERVAL_MS)) }),
  reachable(OTLP_PATHS.metrics),
  v.transform((given): NonNullable<TelemetryChoice["metrics"]> => {
    const { interval: intervalMs, service, resource } = given;
    const collector = usableIn(given, OTLP_PATHS.metrics);
    return defined({ collector, intervalMs, service, resource });
  }),
);

export const FILE_LOGS = v.pipe(
  object({
    ...SIGNAL,
    access: v.optional(v.boolean("must be true or false")),
    sampling: v.optional(LOG_SAMPLING),
  }),
  reachable(OTLP_PATHS.logs),
  v.transform((given): NonNullable<TelemetryChoice["logs"]> => {
    const { access, sampling, service, resource } = given;
    const collector = usableIn(given, OTLP_PATHS.logs);
    return defined({ collector, access, sampling, service, resource });
  }),
);

interface CollectorKeys {
  readonly to: string;
  readonly protocol: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
}

function reachable<Keys extends CollectorKeys>(path: string) {
  return v.check(
    (given: Keys) => typeof collectorIn(given, path) !== "string",
    ({ input }) => `to: ${collectorIn(input, path)}`,
  );
}

/** After {@link reachable}. */
function usableIn(given: CollectorKeys, path: string): TelemetryCollector | "off" {
  const collector = collectorIn(given, path);
  return typeof collector === "string" ? "off" : collector;
}

/** A text is the reason why there is none. */
function collectorIn(given: CollectorKeys, path: string): TelemetryCollector | string {
  const { to, protocol, headers, caFile: ca, certFile: certificate, keyFile: key } = given;
  const format = OTLP_PROTOCOLS[protocol] ?? "otlp_protobuf";
  const addsPath = format === "otlp_grpc" ? "never" : "to_bare";
  const collector = collectorOf(to, { addsPath, path, headers });
  if (typeof collector === "string") return collector;
  const files = defined({ ca, certificate, key });
  return {
    ...collector,
    ...(collector.format !== "zipkin_json" && { format }),
    ...(Object.keys(files).length > 0 && { files }),
  };
}
