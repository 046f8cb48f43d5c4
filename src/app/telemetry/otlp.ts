/**
 * The common form of OTLP requests: items of one signal below their resource and scope, in Protocol Buffers
 * or JSON. An item is encoded once, in the thread that made it; the request around it is put
 * together when it is sent.
 *
 * @module
 */

import { ProtobufWriter } from "../../wire/mod.ts";

export const SIGNALS = ["spans", "metrics", "logs"] as const;
export type Signal = typeof SIGNALS[number];

/** Names and values in turn. */
export type OtlpAttributes = readonly (string | number | boolean)[];

/** Where telemetry comes from: attributes of the resource, and the version of this program. */
export interface TelemetryOrigin {
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly version: string;
}

const SCOPE = "postern";

/** Numbers of the fields, by message; they are the same for every signal. */
const REQUEST = { resources: 1 } as const;
const RESOURCES = { resource: 1, scopes: 2 } as const;
const RESOURCE = { attributes: 1 } as const;
const SCOPES = { scope: 1, items: 2 } as const;
const SCOPE_FIELDS = { name: 1, version: 2 } as const;
const KEY_VALUE = { key: 1, value: 2 } as const;
const ANY_VALUE = { text: 1, flag: 2, whole: 3, double: 4 } as const;

/** Names of the same fields in JSON. */
const NAMES: Readonly<Record<Signal, readonly [resources: string, scopes: string, items: string]>> =
  {
    spans: ["resourceSpans", "scopeSpans", "spans"],
    metrics: ["resourceMetrics", "scopeMetrics", "metrics"],
    logs: ["resourceLogs", "scopeLogs", "logRecords"],
  };

/** One item of a scope: such bytes after each other are a list of items. */
export function writeItem(writer: ProtobufWriter, write: () => void): void {
  writer.within(SCOPES.items, write);
}

export function writeAttributes(
  writer: ProtobufWriter,
  number: number,
  attributes: OtlpAttributes,
): void {
  for (let at = 0; at < attributes.length; at += 2) {
    const value = attributes[at + 1] ?? "";
    writer.within(number, () => {
      writer.text(KEY_VALUE.key, String(attributes[at]));
      writer.within(KEY_VALUE.value, () => writeValue(writer, value));
    });
  }
}

export function writeValue(writer: ProtobufWriter, value: string | number | boolean): void {
  if (typeof value === "string") writer.text(ANY_VALUE.text, value);
  else if (typeof value === "boolean") writer.integer(ANY_VALUE.flag, value ? 1 : 0);
  else if (Number.isSafeInteger(value)) writer.integer(ANY_VALUE.whole, value);
  else writer.double(ANY_VALUE.double, value);
}

/** `items`: bytes of {@link writeItem}. */
export function otlpRequest(items: readonly Uint8Array[], origin: TelemetryOrigin): Uint8Array {
  const writer = new ProtobufWriter();
  writer.within(REQUEST.resources, () => {
    writer.within(RESOURCES.resource, () => {
      writeAttributes(writer, RESOURCE.attributes, Object.entries(origin.attributes).flat());
    });
    writer.within(RESOURCES.scopes, () => {
      writer.within(SCOPES.scope, () => {
        writer.text(SCOPE_FIELDS.name, SCOPE);
        writer.text(SCOPE_FIELDS.version, origin.version);
      });
      for (const bytes of items) writer.raw(bytes);
    });
  });
  return writer.bytes.slice(0, writer.length);
}

/** `items`: their texts in JSON with commas between them. */
export function otlpJsonRequest(
  signal: Signal,
  items: string,
  { attributes, version }: TelemetryOrigin,
): string {
  const [resources, scopes, list] = NAMES[signal];
  const resource = JSON.stringify({ attributes: keyValues(Object.entries(attributes).flat()) });
  const scope = JSON.stringify({ name: SCOPE, version });
  return `{"${resources}":[{"resource":${resource},"${scopes}":[` +
    `{"scope":${scope},"${list}":[${items}]}]}]}`;
}

export function keyValues(attributes: OtlpAttributes): readonly object[] {
  const list: object[] = [];
  for (let at = 0; at < attributes.length; at += 2) {
    list.push({ key: attributes[at], value: anyValue(attributes[at + 1] ?? "") });
  }
  return list;
}

export function anyValue(value: string | number | boolean): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  return Number.isSafeInteger(value)
    ? { intValue: String(value) }
    : { doubleValue: jsonNumber(value) };
}

/** The JSON form of Protocol Buffers has texts for what JSON lacks. */
export function jsonNumber(value: number): number | string {
  return Number.isFinite(value) ? value : String(value);
}

/** A float cannot hold so many digits: whole microseconds. */
export function nanoseconds(ms: number): bigint {
  return BigInt(Math.round(ms * 1_000)) * 1_000n;
}
