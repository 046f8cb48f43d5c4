/**
 * Changes of a head that configuration asks for: fields that are removed, set and added, in Envoy's order.
 * A value may have operators, as the formats of access logs have (`%DOWNSTREAM_REMOTE_ADDRESS%`). What
 * frames a message or belongs to one connection is nobody's to change: two readers could find two messages.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { ExchangeRecord } from "./access_log/exchange_record.ts";
import { compileValue } from "./access_log/line_format.ts";
import type { ProcessFacts } from "./access_log/record_values.ts";
import { isAlias, isToken, knownName, PLAIN } from "./field_names.ts";
import { addField, type Fields, removeAliases, removeField, setField } from "./head.ts";

/** Plain data, sent between threads; {@link headerFault} has found nothing wrong with any of it. */
export interface HeaderChanges {
  /** Lower case, as all names here. */
  readonly remove: readonly string[];
  readonly set: readonly HeaderText[];
  readonly add: readonly HeaderText[];
}

export type HeaderText = readonly [name: string, value: string];

/** Changes the fields of a message; `record`: of the exchange that it is of. */
export type ChangeFields = (fields: Fields, record: ExchangeRecord) => void;

const VALUE_LIMIT_CHARS = 8_192;
const NO_VALUE = /[^\t -~\x80-\uffff]/;
const NO_OCTETS = /[^\t -~\x80-\xff]/g;
/** No operator is read while faults are looked for. */
const NOWHERE: ProcessFacts = { hostname: "", now: () => 0 };

/** Why a field may not be changed so, to continue "it"; undefined: it may. `value` absent: it is removed. */
export function headerFault(name: string, value?: string): string | undefined {
  const lower = name.toLowerCase();
  if (lower.startsWith(":") || lower === "host") return "says what is asked for";
  if (!isToken(lower)) return "is no name of a field";
  const isPlain = (knownName(lower)?.meaning ?? PLAIN) === PLAIN;
  if (!isPlain || isAlias(lower)) return "is of one connection, or says where a message ends";
  if (value === undefined) return undefined;
  const compiled = compileFieldValue(value, NOWHERE);
  return compiled.kind === "refused" ? compiled.reason : undefined;
}

/** Names whose fields are the proxy's own after the changes. */
export function ownNamesOf({ remove, set }: HeaderChanges): readonly string[] {
  return [...remove, ...set.map(([name]) => name)];
}

/** Removes first, then sets, then adds: what is added stands beside what was set. */
export function compileChanges(changes: HeaderChanges, around: ProcessFacts): ChangeFields {
  const { remove } = changes;
  const own = ownNamesOf(changes);
  const set = changes.set.map((text) => compileText(text, around));
  const add = changes.add.map((text) => compileText(text, around));
  return (fields, record) => {
    for (const name of own) removeAliases(fields, name);
    for (const name of remove) removeField(fields, name);
    for (const { name, valueOf } of set) {
      const value = valueOf(record);
      if (value !== "") setField(fields, name, value);
    }
    for (const { name, valueOf } of add) {
      const value = valueOf(record);
      if (value !== "") addField(fields, name, value);
    }
  };
}

interface CompiledText {
  readonly name: string;
  readonly valueOf: HeaderValueOf;
}

/** `""`: there is nothing to say, and the field stays as it is. */
export type HeaderValueOf = (record: ExchangeRecord) => string;

function compileText([name, text]: HeaderText, around: ProcessFacts): CompiledText {
  const compiled = compileFieldValue(text, around);
  // Looked at when it was read: whoever got here with another is left alone.
  if (compiled.kind === "refused") return { name, valueOf: () => "" };
  const { value } = compiled;
  return { name, valueOf: typeof value === "string" ? () => value : value };
}

/** The value as octets; a constant if nothing depends on an exchange. */
export function compileFieldValue(
  text: string,
  around: ProcessFacts,
): { readonly kind: "compiled"; readonly value: string | HeaderValueOf } | {
  readonly kind: "refused";
  /** To continue "it". */
  readonly reason: string;
} {
  if (text.length > VALUE_LIMIT_CHARS) {
    return { kind: "refused", reason: `has more than ${VALUE_LIMIT_CHARS} characters` };
  }
  if (NO_VALUE.test(text)) {
    return { kind: "refused", reason: "has a control character in its value" };
  }
  const compiled = compileValue(octets(text), around);
  if (compiled.kind === "refused") return compiled;
  const { value } = compiled;
  if (typeof value === "string") return { kind: "compiled", value };
  return {
    kind: "compiled",
    value: (record) => {
      // A value from strangers: a forged field would stay if it could make the new value invalid.
      return bare(value(record).slice(0, VALUE_LIMIT_CHARS).replace(NO_OCTETS, "_"));
    },
  };
}

/** Without white space around it, of which an octet of UTF-8 is none (`trim()` knows 0xA0). */
function bare(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isSpace(text.charCodeAt(from))) from++;
  while (to > from && isSpace(text.charCodeAt(to - 1))) to--;
  return text.slice(from, to);
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** As fields have it: each octet of UTF-8 a character, no white space around it. */
function octets(text: string): string {
  return Buffer.from(text.trim(), "utf8").toString("latin1");
}
