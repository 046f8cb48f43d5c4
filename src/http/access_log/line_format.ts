/**
 * Formats of access logs, as Consul's `AccessLogs` gives them to Envoy: compiled once, so that a line is
 * one pass over prepared readers. Missing values are `-` in text and `null` in JSON; a value that is a
 * single operator keeps its type in JSON.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { escapeUnseen, nearest } from "../../base/mod.ts";
import type { ExchangeRecord } from "./exchange_record.ts";
import { OPERATORS, type ProcessFacts, type ValueReader } from "./record_values.ts";

export type LogFormat =
  /** Consul's default for Envoy. */
  | { readonly kind: "default" }
  | { readonly kind: "text"; readonly text: string }
  /** Text of a JSON object. */
  | { readonly kind: "json"; readonly json: string };

/** Makes a line, including its end. */
export type FormatLine = (record: ExchangeRecord) => string;

export type CompiledFormat =
  | { readonly kind: "compiled"; readonly line: FormatLine }
  /** `reason` continues a sentence whose subject is the format. */
  | { readonly kind: "refused"; readonly reason: string };

const DEFAULT_JSON = {
  start_time: "%START_TIME%",
  route_name: "%ROUTE_NAME%",
  method: "%REQ(:METHOD)%",
  path: "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
  protocol: "%PROTOCOL%",
  response_code: "%RESPONSE_CODE%",
  response_flags: "%RESPONSE_FLAGS%",
  response_code_details: "%RESPONSE_CODE_DETAILS%",
  connection_termination_details: "%CONNECTION_TERMINATION_DETAILS%",
  bytes_received: "%BYTES_RECEIVED%",
  bytes_sent: "%BYTES_SENT%",
  duration: "%DURATION%",
  upstream_service_time: "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
  x_forwarded_for: "%REQ(X-FORWARDED-FOR)%",
  user_agent: "%REQ(USER-AGENT)%",
  request_id: "%REQ(X-REQUEST-ID)%",
  authority: "%REQ(:AUTHORITY)%",
  upstream_host: "%UPSTREAM_HOST%",
  upstream_cluster: "%UPSTREAM_CLUSTER%",
  upstream_local_address: "%UPSTREAM_LOCAL_ADDRESS%",
  downstream_local_address: "%DOWNSTREAM_LOCAL_ADDRESS%",
  downstream_remote_address: "%DOWNSTREAM_REMOTE_ADDRESS%",
  requested_server_name: "%REQUESTED_SERVER_NAME%",
  upstream_transport_failure_reason: "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
};

/** Envoy's default text. */
export const DEFAULT_TEXT =
  '[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" ' +
  "%RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% " +
  '%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" ' +
  '"%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"\n';

/** Length limit of a format, and depth limit of its objects. */
const FORMAT_LIMIT_CHARS = 64 * 1024;
const DEPTH_LIMIT = 16;
const COMMAND = /%(?:%|([A-Z0-9_]+)(?:\(([^)]*)\))?(?::(\d{1,9}))?%)/g;

/** Known operators, for messages about an unknown one. */
export const KNOWN_OPERATORS: readonly string[] = Object.keys(OPERATORS).sort();

class Unusable extends Error {}

/** `value`: a constant, or a function that makes one for each exchange; `""`: no value. */
export type CompiledValue =
  | { readonly kind: "compiled"; readonly value: string | ((record: ExchangeRecord) => string) }
  | Extract<CompiledFormat, { kind: "refused" }>;

/** Compiles the value of a field, with operators; missing values are left out. Never throws. */
export function compileValue(text: string, around: ProcessFacts): CompiledValue {
  const slots = new Slots(around);
  const refused = refusalOf(() => slots.text(text, "field"));
  return refused ?? { kind: "compiled", value: slots.constant ?? slots.line() };
}

/** Compiles a format. Never throws. */
export function compileFormat(format: LogFormat, around: ProcessFacts): CompiledFormat {
  const slots = new Slots(around);
  const refused = refusalOf(() => {
    if (format.kind === "text") slots.text(bounded(format.text), "text");
    else slots.json(format.kind === "json" ? objectOf(bounded(format.json)) : DEFAULT_JSON, 0);
    // Each exchange gets a line of its own, even if the format has no line end.
    if (format.kind !== "text" || !format.text.endsWith("\n")) slots.word("\n");
  });
  return refused ?? { kind: "compiled", line: slots.line() };
}

function refusalOf(compile: () => void): Extract<CompiledFormat, { kind: "refused" }> | undefined {
  try {
    compile();
    return undefined;
  } catch (error) {
    if (error instanceof Unusable) return { kind: "refused", reason: error.message };
    throw error;
  }
}

function objectOf(json: string): object {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new Unusable("is no JSON");
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new Unusable("is no JSON object");
}

function bounded(text: string): string {
  if (text.length <= FORMAT_LIMIT_CHARS) return text;
  throw new Unusable(`has more than ${FORMAT_LIMIT_CHARS} characters`);
}

/** Constant words and values in turn. */
class Slots {
  readonly #around: ProcessFacts;
  readonly #words: string[] = [""];
  readonly #values: FormatLine[] = [];

  constructor(around: ProcessFacts) {
    this.#around = around;
  }

  json(value: unknown, depth: number): void {
    if (depth > DEPTH_LIMIT) throw new Unusable(`is nested deeper than ${DEPTH_LIMIT}`);
    if (typeof value === "string") return this.#jsonText(value);
    if (typeof value !== "object" || value === null) return this.word(JSON.stringify(value));
    const isList = Array.isArray(value);
    this.word(isList ? "[" : "{");
    Object.entries(value).forEach(([key, member], index) => {
      if (index > 0) this.word(",");
      if (!isList) this.word(`${JSON.stringify(key)}:`);
      this.json(member, depth + 1);
    });
    this.word(isList ? "]" : "}");
  }

  #jsonText(text: string): void {
    const [only] = text.matchAll(COMMAND);
    if (only && only[0] === text && only[1] !== undefined) {
      const read = this.#reader(only);
      return this.#value((record) => {
        const value = read(record);
        if (typeof value === "number") return String(value);
        return value === undefined || value === "" ? "null" : `"${escaped(value)}"`;
      });
    }
    this.word('"');
    this.text(text, "json");
    this.word('"');
  }

  /** `json`: inside a JSON text; `field`: without escapes, for the value of a field. */
  text(text: string, within: "text" | "json" | "field"): void {
    const word = (words: string) => {
      if (words.includes("%")) throw new Unusable(`has "%" without an operator at "${cut(words)}"`);
      this.word(within === "json" ? JSON.stringify(words).slice(1, -1) : words);
    };
    let at = 0;
    for (const found of text.matchAll(COMMAND)) {
      word(text.slice(at, found.index));
      at = found.index + found[0].length;
      if (found[1] === undefined) {
        this.word("%");
        continue;
      }
      const read = this.#reader(found);
      this.#value((record) => {
        const value = read(record);
        if (typeof value === "number") return String(value);
        if (within === "field") return value ?? "";
        return value === undefined || value === "" ? "-" : escaped(value);
      });
    }
    word(text.slice(at));
  }

  #reader([, name = "", given = "", limit]: RegExpMatchArray): ValueReader {
    const row = Object.hasOwn(OPERATORS, name) ? OPERATORS[name] : undefined;
    if (!row) {
      const close = nearest(name, KNOWN_OPERATORS);
      const hint = close ? ` (is it ${close}?)` : "";
      const known = KNOWN_OPERATORS.join(", ");
      throw new Unusable(
        `has the operator ${cut(name)}, which is not known here${hint}; known are ${known}`,
      );
    }
    const read = row(given, this.#around);
    if (typeof read !== "function") {
      throw new Unusable(`has %${name}(${cut(given)})%: ${name} ${read.fault}`);
    }
    if (limit === undefined) return read;
    const chars = Number(limit);
    return (record) => {
      const value = read(record);
      return typeof value === "string" ? value.slice(0, chars) : value;
    };
  }

  word(text: string): void {
    this.#words.push((this.#words.pop() ?? "") + text);
  }

  #value(value: FormatLine): void {
    this.#values.push(value);
    this.#words.push("");
  }

  /** The whole text, if it does not depend on an exchange. */
  get constant(): string | undefined {
    return this.#values.length === 0 ? this.#words.join("") : undefined;
  }

  line(): FormatLine {
    const [first = "", ...words] = this.#words;
    const values = this.#values;
    return (record) => {
      let line = first;
      for (let i = 0; i < words.length; i++) line += `${values[i]?.(record)}${words[i]}`;
      return line;
    };
  }
}

function cut(text: string): string {
  return text.slice(0, 40);
}

const NEEDS_CARE = /[^ !#-[\]-~]/;
/** Characters of heads are octets. */
const BEYOND_OCTETS = /[\u0100-\uffff]/;
const ABOVE_ASCII = /[\x80-\xff]/;
const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** Escaped as in JSON, without the quotes around it. */
function escaped(text: string): string {
  if (!NEEDS_CARE.test(text)) return text;
  return escapeUnseen(JSON.stringify(asWritten(text)).slice(1, -1));
}

/** A text that is valid UTF-8 is shown decoded. */
function asWritten(text: string): string {
  if (!ABOVE_ASCII.test(text) || BEYOND_OCTETS.test(text)) return text;
  try {
    return UTF8.decode(Buffer.from(text, "latin1"));
  } catch {
    // Another encoding: each octet by itself.
    return text;
  }
}
