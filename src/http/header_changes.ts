/**
 * Configured changes of a head: fields are removed, set and added, in Envoy's order. A value may contain
 * the operators of access log formats (`%DOWNSTREAM_REMOTE_ADDRESS%`). Fields that frame a message or
 * belong to one connection cannot be changed: two readers could disagree about the message.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { ExchangeRecord } from "./access_log/exchange_record.ts";
import { type CompiledValue, compileValue } from "./access_log/line_format.ts";
import type { ProcessFacts } from "./access_log/record_values.ts";
import { isPlainName, isToken, withoutBlanks } from "./field_names.ts";
import { addField, type Fields, removeAliases, removeField, setField } from "./head.ts";

/** Plain data, sent between threads; {@link headerFault} has accepted all of it. */
export interface HeaderChanges {
  /** Lower case, as all names here. */
  readonly remove: readonly string[];
  readonly set: readonly HeaderText[];
  readonly add: readonly HeaderText[];
}

export type HeaderText = readonly [name: string, value: string];

/** Changes the fields of a message; `record`: the record of its exchange. */
export type ChangeFields = (fields: Fields, record: ExchangeRecord) => void;

const VALUE_LIMIT_CHARS = 8_192;
const NO_VALUE = /[^\t -~\x80-\uffff]/;
const NO_OCTETS = /[^\t -~\x80-\xff]/g;
/** Facts for {@link headerFault}, which evaluates no operator. */
const NOWHERE: ProcessFacts = { hostname: "", now: () => 0 };

/** Why a field may not be changed like this (`value` absent: removed), to continue "it". */
export function headerFault(name: string, value?: string): string | undefined {
  const lower = name.toLowerCase();
  if (lower.startsWith(":") || lower === "host") return "says what is asked for";
  if (!isToken(lower)) return "is no name of a field";
  if (!isPlainName(lower)) return "is of one connection, or says where a message ends";
  if (value === undefined) return undefined;
  const compiled = compileFieldValue(value, NOWHERE);
  return compiled.kind === "refused" ? compiled.reason : undefined;
}

/** Names of the fields that the proxy itself sets after the changes. */
export function ownNamesOf({ remove, set }: HeaderChanges): readonly string[] {
  return [...remove, ...set.map(([name]) => name)];
}

/** Removes first, then sets, then adds: an added field stands beside one that was set. */
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

/** `valueOf`: `""` is no value, and the field stays as it is. */
function compileText([name, text]: HeaderText, around: ProcessFacts): {
  readonly name: string;
  readonly valueOf: (record: ExchangeRecord) => string;
} {
  const compiled = compileFieldValue(text, around);
  // Configuration is validated when it is read; a value that is refused here changes nothing.
  if (compiled.kind === "refused") return { name, valueOf: () => "" };
  const { value } = compiled;
  return { name, valueOf: typeof value === "string" ? () => value : value };
}

/** The value as octets; a constant if it does not depend on the exchange. */
export function compileFieldValue(
  text: string,
  around: ProcessFacts,
): CompiledValue {
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
    // The value may come from a stranger: a forged field would stay if it could make the new value invalid.
    value: (record) =>
      withoutBlanks(value(record).slice(0, VALUE_LIMIT_CHARS).replace(NO_OCTETS, "_")),
  };
}

/** The form in {@link Fields}: each octet of UTF-8 is a character, no white space around it. */
function octets(text: string): string {
  return Buffer.from(text.trim(), "utf8").toString("latin1");
}
