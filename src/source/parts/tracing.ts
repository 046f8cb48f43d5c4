/** The tracing of a proxy: what its process was started with counts before its configuration. @module */

import { TRACE_FORMS, type TraceForm } from "../../http/mod.ts";
import {
  type Content,
  keepPart,
  type TraceCollector,
  type TracingPart,
} from "../../snapshot/mod.ts";
import type { PartContext } from "./own_credentials.ts";

/** Settings of one source; an absent member leaves the choice to the next one. */
export interface TracingChoice {
  /** `"off"`: no spans, whatever the next source says. */
  readonly collector?: TraceCollector | "off";
  readonly ratio?: number;
  readonly atMost?: number;
  readonly obeysCaller?: boolean;
  /** Forms that are read and written; absent: W3C is written, and what a request carries. */
  readonly forms?: readonly TraceForm[];
  readonly connections?: boolean;
  /** Name of the service in the spans. */
  readonly service?: string;
  readonly resource?: Readonly<Record<string, string>>;
}

const DEFAULT_PROPAGATION: TracingPart["propagation"] = {
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
  const { forms, ratio = 1, atMost = 1, obeysCaller = true, connections = false } = choice;
  const content: Content<TracingPart> = {
    collector,
    sampling: { ratio, atMost, obeysCaller },
    propagation: forms ? { read: forms, write: forms, writesCarried: false } : DEFAULT_PROPAGATION,
    connections,
    service: choice.service ?? service,
    resource: { ...configured?.resource, ...process?.resource },
  };
  return keepPart<TracingPart>(previous?.tracing, content, version);
}
