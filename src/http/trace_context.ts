/**
 * The position of a request in a distributed trace, as headers carry it: W3C Trace Context, B3 (one header
 * or several) and Datadog's. Reading and writing is pure; whether a span is recorded is decided elsewhere.
 *
 * @module
 */

import { addField, FIELD, type Fields, removeField, setField } from "./head.ts";

/** `tracecontext`: `traceparent` and `tracestate`. `b3`: one header. `b3multi`: `X-B3-*`. `datadog`: `x-datadog-*`. */
export const TRACE_FORMS = ["tracecontext", "b3", "b3multi", "datadog"] as const;
export type TraceForm = typeof TRACE_FORMS[number];

/** The caller's span, from the first form that has a valid one. */
export interface TraceParent {
  readonly form: TraceForm;
  /** 32 hexadecimal digits in lower case, not all zero. */
  readonly traceId: string;
  /** 16 hexadecimal digits, not all zero. */
  readonly spanId: string;
  /** `undefined`: the caller left the decision to the next one. */
  readonly isSampled: boolean | undefined;
}

/** The span that the receiver of a request gets as its parent. */
export interface TracePosition {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string;
  readonly isSampled: boolean;
}

/** Names and values in turn. */
export type SpanAttributes = readonly (string | number)[];

export interface SpanEvent {
  readonly name: string;
  /** Since the start of the span. */
  readonly afterMs: number;
  readonly attributes: SpanAttributes;
}

/** The listener that a span belongs to. */
export interface TracedListener {
  readonly direction: "inbound" | "outbound";
  readonly name: string;
  readonly destination: string;
}

/** The span of an exchange that is sampled. */
export interface ExchangeTrace extends TracePosition {
  readonly listener: TracedListener;
  readonly events: SpanEvent[];
  /** Monotonic milliseconds, for spans below this one. */
  readonly now: () => number;
  /** Absent: none. */
  children?: ChildSpan[];
}

/** A span that a plugin made within the exchange. */
export interface ChildSpan {
  readonly name: string;
  readonly spanId: string;
  /** Monotonic, as `endAt`; `undefined`: it has not ended. */
  readonly startedAt: number;
  endAt: number | undefined;
  attributes: SpanAttributes;
}

const TRACEPARENT_CHARS = 55;
/** Codes of digits in lower case. */
const HEX_DIGITS = new Uint8Array(256);
for (const digit of "0123456789abcdef") HEX_DIGITS[digit.charCodeAt(0)] = 1;
const NO_TRACE = "0".repeat(32);
const NO_SPAN = "0".repeat(16);
const B3 = /^([0-9a-f]{32}|[0-9a-f]{16})-([0-9a-f]{16})(?:-([01d])(?:-[0-9a-f]{16})?)?$/i;
const HEX_ID = /^(?:[0-9a-f]{16}){1,2}$/i;
const ZEROS = /^0+$/;
const DECIMAL_ID = /^[0-9]{1,20}$/;
const LARGEST_ID = (1n << 64n) - 1n;
const UPPER_HALF = /(?:^|,)_dd\.p\.tid=([0-9a-f]{16})(?:,|$)/;

/** Headers of {@link TRACE_FORMS}, found in one pass over the fields; `undefined`: missing. */
interface TraceHeaders {
  traceparent: string | undefined;
  /** The header occurs more than once, so that no value counts. */
  isRepeated: boolean;
  b3: string | undefined;
  b3TraceId: string | undefined;
  b3SpanId: string | undefined;
  b3Sampled: string | undefined;
  b3Flags: string | undefined;
  datadogTraceId: string | undefined;
  datadogParentId: string | undefined;
  datadogPriority: string | undefined;
  datadogTags: string | undefined;
}

const MEMBERS: ReadonlyMap<string, Exclude<keyof TraceHeaders, "isRepeated">> = new Map([
  ["b3", "b3"],
  ["x-b3-traceid", "b3TraceId"],
  ["x-b3-spanid", "b3SpanId"],
  ["x-b3-sampled", "b3Sampled"],
  ["x-b3-flags", "b3Flags"],
  ["x-datadog-trace-id", "datadogTraceId"],
  ["x-datadog-parent-id", "datadogParentId"],
  ["x-datadog-sampling-priority", "datadogPriority"],
  ["x-datadog-tags", "datadogTags"],
]);
const B = "b".charCodeAt(0);
const T = "t".charCodeAt(0);
const X = "x".charCodeAt(0);
const D = "d".charCodeAt(0);
const DASH = "-".charCodeAt(0);
const ZERO = "0".charCodeAt(0);
interface Digits {
  readonly from: number;
  readonly to: number;
}

/** Members of a `traceparent`. */
const TRACE_ID: Digits = { from: 3, to: 35 };
const SPAN_ID: Digits = { from: 36, to: 52 };
const DIGITS: readonly Digits[] = [{ from: 0, to: 2 }, TRACE_ID, SPAN_ID, { from: 53, to: 55 }];
const DASHES = [2, 35, 52];
const FLAGS_AT = 54;
/** Codes of last digits of flags that are not sampled; letters are left to the full reader. */
const UNSAMPLED = new Set([..."02468"].map((digit) => digit.charCodeAt(0)));

/**
 * The decision of a caller that sends `traceparent` and no other trace header, found without reading its
 * ids: most requests are not sampled, and need no more. `none`: the request has no trace header;
 * `undefined`: {@link readTrace} has to look.
 */
export function quickDecision(
  fields: Fields,
  forms: readonly TraceForm[],
): "none" | "unsampled" | undefined {
  if (forms[0] !== "tracecontext") return undefined;
  let text: string | undefined;
  for (let i = 0; i < fields.length; i += FIELD) {
    const name = fields[i] ?? "";
    const first = name.charCodeAt(0);
    if (first === T) {
      if (name !== "traceparent") continue;
      if (text !== undefined) return undefined;
      text = fields[i + 1];
    } else if (first === X) {
      const third = name.charCodeAt(1) === DASH ? name.charCodeAt(2) : 0;
      if ((third === B || third === D) && MEMBERS.has(name)) return undefined;
    } else if (first === B && name === "b3") return undefined;
  }
  if (text === undefined) return "none";
  const isUnsampled = isTraceparent(text) && UNSAMPLED.has(text.charCodeAt(FLAGS_AT)) &&
    hasDigit(text, TRACE_ID) && hasDigit(text, SPAN_ID);
  return isUnsampled ? "unsampled" : undefined;
}

/** A digit that is not 0. */
function hasDigit(text: string, { from, to }: Digits): boolean {
  for (let at = from; at < to; at++) if (text.charCodeAt(at) !== ZERO) return true;
  return false;
}

/** `undefined`: the request has none of these headers. */
function headersOf(fields: Fields): TraceHeaders | undefined {
  let found: TraceHeaders | undefined;
  for (let i = 0; i < fields.length; i += FIELD) {
    const name = fields[i] ?? "";
    const first = name.charCodeAt(0);
    if (first === T) {
      if (name !== "traceparent") continue;
      found ??= noHeaders();
      found.isRepeated = found.traceparent !== undefined;
      found.traceparent = fields[i + 1];
      continue;
    }
    // Most names that begin with x belong to other headers.
    const third = first === X && name.charCodeAt(1) === DASH ? name.charCodeAt(2) : 0;
    if (third !== B && third !== D && name !== "b3") continue;
    const member = MEMBERS.get(name);
    if (member) (found ??= noHeaders())[member] ??= fields[i + 1];
  }
  return found;
}

function noHeaders(): TraceHeaders {
  return {
    traceparent: undefined,
    isRepeated: false,
    b3: undefined,
    b3TraceId: undefined,
    b3SpanId: undefined,
    b3Sampled: undefined,
    b3Flags: undefined,
    datadogTraceId: undefined,
    datadogParentId: undefined,
    datadogPriority: undefined,
    datadogTags: undefined,
  };
}

/** What the headers of a request say. */
export interface ReadTrace {
  /** The caller's span; `undefined`: no form has a valid one. */
  readonly parent: TraceParent | undefined;
  /** A decision without ids, as `b3: 0`; `undefined`: none. */
  readonly isSampled: boolean | undefined;
  /** Forms in which the request carries anything, valid or not. */
  readonly carried: readonly TraceForm[];
}

const NOTHING_READ: ReadTrace = { parent: undefined, isSampled: undefined, carried: [] };

/** Reads `forms` in this order; the first with a valid parent counts. */
export function readTrace(fields: Fields, forms: readonly TraceForm[]): ReadTrace {
  const headers = headersOf(fields);
  if (!headers) return NOTHING_READ;
  const carried: TraceForm[] = [];
  let parent: TraceParent | undefined;
  let isSampled: boolean | undefined;
  for (const form of forms) {
    if (!isCarried(headers, form)) continue;
    carried.push(form);
    parent ??= PARSERS[form](headers);
    if (form === "b3" || form === "b3multi") isSampled ??= b3Decision(headers, form);
  }
  return { parent, isSampled, carried };
}

function isCarried(headers: TraceHeaders, form: TraceForm): boolean {
  switch (form) {
    case "tracecontext":
      return headers.traceparent !== undefined;
    case "b3":
      return headers.b3 !== undefined;
    case "b3multi":
      return headers.b3TraceId !== undefined || headers.b3Sampled !== undefined ||
        headers.b3Flags !== undefined;
    case "datadog":
      return headers.datadogTraceId !== undefined;
  }
}

const PARSERS: Readonly<
  Record<TraceForm, (headers: TraceHeaders) => TraceParent | undefined>
> = {
  tracecontext: readTraceparent,
  b3: readB3,
  b3multi: readB3Multi,
  datadog: readDatadog,
};

/** Version 00, or a later one that begins as 00 does (W3C Trace Context 4). */
function readTraceparent({ traceparent = "", isRepeated }: TraceHeaders): TraceParent | undefined {
  if (isRepeated || !isTraceparent(traceparent)) return undefined;
  const traceId = traceparent.slice(3, 35);
  const spanId = traceparent.slice(36, 52);
  if (traceId === NO_TRACE || spanId === NO_SPAN) return undefined;
  const flags = Number.parseInt(traceparent.charAt(54), 16);
  return { form: "tracecontext", traceId, spanId, isSampled: (flags & 1) === 1 };
}

/** `00-` and 32 digits, `-` and 16 digits, `-` and 2 digits. */
function isTraceparent(text: string): boolean {
  if (text.length < TRACEPARENT_CHARS || text.startsWith("ff")) return false;
  for (const at of DASHES) if (text.charCodeAt(at) !== DASH) return false;
  for (const digits of DIGITS) if (!isHex(text, digits)) return false;
  if (text.length === TRACEPARENT_CHARS) return true;
  return !text.startsWith("00") && text.charCodeAt(TRACEPARENT_CHARS) === DASH;
}

function isHex(text: string, { from, to }: Digits): boolean {
  for (let at = from; at < to; at++) if (HEX_DIGITS[text.charCodeAt(at)] !== 1) return false;
  return true;
}

function readB3(headers: TraceHeaders): TraceParent | undefined {
  const [, traceId, spanId] = B3.exec(headers.b3 ?? "") ?? [];
  return parentOf("b3", { traceId, spanId, isSampled: b3Decision(headers, "b3") });
}

function readB3Multi(headers: TraceHeaders): TraceParent | undefined {
  const { b3TraceId: traceId = "", b3SpanId: spanId = "" } = headers;
  if (!HEX_ID.test(traceId) || !HEX_ID.test(spanId) || spanId.length !== 16) return undefined;
  return parentOf("b3multi", { traceId, spanId, isSampled: b3Decision(headers, "b3multi") });
}

/** `d` and flags of 1 ask for a trace in any case. */
function b3Decision(headers: TraceHeaders, form: "b3" | "b3multi"): boolean | undefined {
  const { b3 = "", b3Sampled, b3Flags } = headers;
  const text = form === "b3"
    ? b3.length === 1 ? b3 : B3.exec(b3)?.[3]
    : b3Flags === "1"
    ? "1"
    : b3Sampled;
  switch (text?.toLowerCase()) {
    case "1":
    case "d":
    case "true":
      return true;
    case "0":
    case "false":
      return false;
    default:
      return undefined;
  }
}

function readDatadog(headers: TraceHeaders): TraceParent | undefined {
  const lower = hexOf(headers.datadogTraceId);
  const spanId = hexOf(headers.datadogParentId);
  if (lower === undefined) return undefined;
  const upper = UPPER_HALF.exec(headers.datadogTags ?? "")?.[1] ?? NO_SPAN;
  const priority = Number(headers.datadogPriority ?? Number.NaN);
  return parentOf("datadog", {
    traceId: upper + lower,
    spanId,
    isSampled: Number.isNaN(priority) ? undefined : priority > 0,
  });
}

/** Datadog's ids are decimal. */
function hexOf(decimal: string | undefined): string | undefined {
  if (decimal === undefined || !DECIMAL_ID.test(decimal)) return undefined;
  const id = BigInt(decimal);
  return id > LARGEST_ID ? undefined : id.toString(16).padStart(16, "0");
}

function parentOf(
  form: TraceForm,
  { traceId, spanId, isSampled }: {
    readonly traceId: string | undefined;
    readonly spanId: string | undefined;
    readonly isSampled: boolean | undefined;
  },
): TraceParent | undefined {
  if (traceId === undefined || spanId === undefined) return undefined;
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  const whole = traceId.length === 32 ? traceId : NO_SPAN + traceId;
  return { form, traceId: whole.toLowerCase(), spanId: spanId.toLowerCase(), isSampled };
}

/** Adds this position to a request that carries none. */
export function addTrace(
  fields: Fields,
  position: TracePosition,
  forms: readonly TraceForm[],
): void {
  for (const form of forms) {
    if (form === "tracecontext") addField(fields, "traceparent", traceparentOf(position));
    else WRITERS[form](fields, position);
  }
}

/** Replaces the headers of `forms` by this position. */
export function writeTrace(
  fields: Fields,
  position: TracePosition,
  forms: readonly TraceForm[],
): void {
  for (const form of forms) WRITERS[form](fields, position);
}

function traceparentOf({ traceId, spanId, isSampled }: TracePosition): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

const WRITERS: Readonly<
  Record<TraceForm, (fields: Fields, position: TracePosition) => void>
> = {
  tracecontext(fields, position) {
    setField(fields, "traceparent", traceparentOf(position));
  },
  b3(fields, { traceId, spanId, parentId, isSampled }) {
    const parent = parentId === "" ? "" : `-${parentId}`;
    setField(fields, "b3", `${shortest(traceId)}-${spanId}-${isSampled ? "1" : "0"}${parent}`);
  },
  b3multi(fields, { traceId, spanId, parentId, isSampled }) {
    setField(fields, "x-b3-traceid", shortest(traceId));
    setField(fields, "x-b3-spanid", spanId);
    if (parentId === "") removeField(fields, "x-b3-parentspanid");
    else setField(fields, "x-b3-parentspanid", parentId);
    removeField(fields, "x-b3-flags");
    setField(fields, "x-b3-sampled", isSampled ? "1" : "0");
  },
  datadog(fields, { traceId, spanId, isSampled }) {
    setField(fields, "x-datadog-trace-id", decimalOf(traceId.slice(16)));
    setField(fields, "x-datadog-parent-id", decimalOf(spanId));
    setField(fields, "x-datadog-sampling-priority", isSampled ? "1" : "0");
    const upper = traceId.slice(0, 16);
    writeUpperHalf(fields, upper === NO_SPAN ? undefined : upper);
  },
};

/** Other tags of the caller stay. */
function writeUpperHalf(fields: Fields, upper: string | undefined): void {
  const name = "x-datadog-tags";
  const at = indexOf(fields, name);
  const tags = (fields[at + 1] ?? "").split(",")
    .filter((tag) => at >= 0 && tag !== "" && !tag.startsWith("_dd.p.tid="));
  if (upper !== undefined) tags.push(`_dd.p.tid=${upper}`);
  if (tags.length === 0) return removeField(fields, name);
  if (at < 0) addField(fields, name, tags.join(","));
  else setField(fields, name, tags.join(","));
}

function indexOf(fields: Fields, name: string): number {
  for (let i = 0; i < fields.length; i += FIELD) if (fields[i] === name) return i;
  return -1;
}

/** An id of 64 bits is written as it came: older readers of B3 know no other. */
function shortest(traceId: string): string {
  return traceId.startsWith(NO_SPAN) ? traceId.slice(16) : traceId;
}

function decimalOf(hex: string): string {
  return BigInt(`0x${hex}`).toString();
}
