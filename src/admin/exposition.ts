/** Metrics in the format that the scraper prefers: Prometheus' text, OpenMetrics, or Protocol Buffers. @module */

import {
  escapeLabel,
  formatFamilies,
  linesOf,
  type MetricFamily,
  type TrafficExemplar,
} from "../base/mod.ts";
import { hide } from "./redact.ts";

export interface Exposition {
  readonly type: string;
  readonly body: string | Uint8Array<ArrayBuffer>;
}

interface ExpositionFormat {
  readonly type: string;
  accepts(type: string, parameters: ReadonlyMap<string, string>): boolean;
  write(families: readonly MetricFamily[], hidden: readonly string[]): Promise<Exposition["body"]>;
}

const TEXT: ExpositionFormat = {
  type: "text/plain; version=0.0.4; charset=utf-8",
  accepts: (type) => ["text/plain", "text/*", "*/*"].includes(type),
  write: (families, hidden) => Promise.resolve(hide(formatFamilies(families), hidden)),
};

const OPEN_METRICS: ExpositionFormat = {
  type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
  accepts: (type, parameters) =>
    type === "application/openmetrics-text" &&
    ["", "1.0.0", "0.0.1"].includes(parameters.get("version") ?? ""),
  write: (families, hidden) => Promise.resolve(hide(openMetricsText(families), hidden)),
};

const MESSAGE = "io.prometheus.client.MetricFamily";

const PROTOBUF: ExpositionFormat = {
  type: `application/vnd.google.protobuf; proto=${MESSAGE}; encoding=delimited`,
  accepts: (type, parameters) =>
    type === "application/vnd.google.protobuf" &&
    parameters.get("proto") === MESSAGE.toLowerCase() &&
    parameters.get("encoding") === "delimited",
  async write(families, hidden) {
    const { familyMessages } = await import("./family_messages.ts");
    return familyMessages(families, (text) => hide(text, hidden));
  },
};

/** `accept`: the header of the request. What is not supported gets Prometheus' text. */
export async function expose(
  families: readonly MetricFamily[],
  { accept = "", hidden }: {
    readonly accept?: string | undefined;
    readonly hidden: readonly string[];
  },
): Promise<Exposition> {
  const { type, write } = preferred(accept);
  return { type, body: await write(families, hidden) };
}

/** The supported format with the highest `q`; of several the first one. */
function preferred(accept: string): ExpositionFormat {
  let best = TEXT;
  let highest = 0;
  for (const part of accept.toLowerCase().split(",")) {
    const [type = "", ...rest] = part.split(";").map((text) => text.trim());
    const parameters = new Map(rest.map((text) => {
      const [name = "", value = ""] = text.split("=", 2);
      return [name.trim(), value.trim().replace(/^"(.*)"$/, "$1")] as const;
    }));
    const q = Number(parameters.get("q") ?? "1");
    const format = [PROTOBUF, OPEN_METRICS, TEXT].find((one) => one.accepts(type, parameters));
    if (!format || !(q > highest)) continue;
    highest = q;
    best = format;
  }
  return best;
}

/**
 * OpenMetrics 1.0. Its counters end in `_total`, which is no part of the name of their family. A counter with
 * another name, as Envoy has them, keeps its name, so that queries hold for each format, and is `unknown`.
 */
export function openMetricsText(families: readonly MetricFamily[]): string {
  const names = new Set(families.map(({ name }) => name));
  const text = families.map(({ name, help, kind, list, divisor }) => {
    const base = name.replace(/_total$/, "");
    const isCounter = kind === "counter" && base !== name && !names.has(base);
    const shown = isCounter ? base : name;
    const type = kind === "counter" && !isCounter ? "unknown" : kind;
    return `# TYPE ${shown} ${type}\n# HELP ${shown} ${escapeLabel(help)}\n` +
      list.map((sample) => {
        const { exemplars } = sample;
        return linesOf(name, sample, divisor, (bucket) => exemplarText(exemplars?.[bucket]));
      }).join("");
  });
  return `${text.join("")}# EOF\n`;
}

function exemplarText(exemplar: TrafficExemplar | undefined): string {
  if (!exemplar) return "";
  const { traceId, durationMs, at } = exemplar;
  return ` # {trace_id="${traceId}"} ${durationMs / 1_000} ${(at / 1_000).toFixed(3)}`;
}
