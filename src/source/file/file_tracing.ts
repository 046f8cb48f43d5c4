/** `tracing` of a configuration file: the collector of spans, and which requests have them. @module */

import * as v from "valibot";
import { defined, object, text } from "../../base/schema.ts";
import { TRACE_FORMS } from "../../http/mod.ts";
import type { TraceCollector, TracingChoice } from "../../snapshot/mod.ts";
import { collectorOf, OTLP_PROTOCOLS, parseShare } from "../parts/tracing.ts";

const PROTOCOLS = Object.keys(OTLP_PROTOCOLS);

export const FILE_TRACING = v.pipe(
  object({
    to: text(),
    protocol: v.optional(
      v.picklist(PROTOCOLS, `must be ${PROTOCOLS.join(", ")}`),
      "http/protobuf",
    ),
    headers: v.optional(v.record(v.pipe(text(), v.toLowerCase()), text()), {}),
    caFile: v.optional(text()),
    certFile: v.optional(text()),
    keyFile: v.optional(text()),
    sample: v.optional(v.pipe(
      text(),
      v.check((share) => parseShare(share) !== undefined, "must be a share such as 1%"),
      v.transform((share) => parseShare(share) ?? 1),
    )),
    propagators: v.optional(
      v.array(v.picklist(TRACE_FORMS, `must be ${TRACE_FORMS.join(", ")}`)),
    ),
    connections: v.optional(v.boolean("must be true or false")),
    service: v.optional(text()),
    resource: v.optional(v.record(text(), text())),
  }),
  v.check(
    (given) => typeof collectorIn(given) !== "string",
    ({ input }) => `to: ${collectorIn(input)}`,
  ),
  v.transform((given): TracingChoice => {
    const { sample: ratio, propagators: forms, connections, service, resource } = given;
    const collector = collectorIn(given);
    return defined({
      collector: typeof collector === "string" ? "off" as const : collector,
      propagation: forms && { read: forms, write: forms, writesCarried: false },
      ratio,
      connections,
      service,
      resource,
    });
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

/** A text is the reason why there is none. */
function collectorIn(given: CollectorKeys): TraceCollector | string {
  const { to, protocol, headers, caFile: ca, certFile: certificate, keyFile: key } = given;
  const format = OTLP_PROTOCOLS[protocol] ?? "otlp_protobuf";
  const addsPath = format === "otlp_grpc" ? "never" : "to_bare";
  const collector = collectorOf(to, { addsPath, headers });
  if (typeof collector === "string") return collector;
  const files = defined({ ca, certificate, key });
  return {
    ...collector,
    ...(collector.format !== "zipkin_json" && { format }),
    ...(Object.keys(files).length > 0 && { files }),
  };
}
