/**
 * Fields of a head as plugins see them: a list that nobody changes; a change makes another.
 *
 * @module
 */

import {
  addField,
  FIELD,
  fieldOf,
  type Fields,
  fieldsOf,
  isPlainName,
  isValue,
  removeField,
  setField,
} from "../http/mod.ts";
import type { HeaderChange, Headers } from "./api.ts";

export class HeaderList implements Headers {
  /** Never changed. */
  readonly fields: Fields;

  constructor(fields: Fields) {
    this.fields = fields;
  }

  get(name: string): string | undefined {
    return fieldOf(this.fields, name.toLowerCase());
  }

  all(name: string): readonly string[] {
    return fieldsOf(this.fields, name.toLowerCase());
  }

  with(change: HeaderChange): HeaderList {
    return new HeaderList(changeFields(this.fields, change));
  }

  *[Symbol.iterator](): Iterator<readonly [name: string, value: string]> {
    const { fields } = this;
    for (let i = 0; i < fields.length; i += FIELD) yield [fields[i] ?? "", fields[i + 1] ?? ""];
  }
}

/** The fields that a message is to have; throws a TypeError that names the field which is not lawful. */
export function fieldsWith(fields: Fields, change: Headers | HeaderChange | undefined): Fields {
  if (change === undefined) return fields;
  if (change instanceof HeaderList) return change.fields;
  if (Symbol.iterator in change) throw new TypeError("headers: of another message's making");
  return changeFields(fields, change);
}

function changeFields(fields: Fields, { remove, set, add }: HeaderChange): Fields {
  let changed: Fields | undefined;
  if (remove) {
    changed = fields.slice();
    for (const name of remove) removeField(changed, lawfulName(name));
  }
  for (const name in set) {
    const lower = lawfulName(name);
    const value = lawfulValue(name, set[name]);
    // What is copied to be longer by one field is copied once.
    if (changed) setField(changed, lower, value);
    else if (fieldOf(fields, lower) === undefined) changed = fields.concat(lower, value, lower);
    else setField(changed = fields.slice(), lower, value);
  }
  for (const name in add) {
    const lower = lawfulName(name);
    const value = lawfulValue(name, add[name]);
    if (changed) addField(changed, lower, value);
    else changed = fields.concat(lower, value, lower);
  }
  return changed ?? fields;
}

/** Names that were looked at, in lower case; those of one configuration are few. */
const LAWFUL = new Map<string, string>();
const MAX_LAWFUL = 1_024;

function lawfulName(name: string): string {
  const known = LAWFUL.get(name);
  if (known !== undefined) return known;
  const lower = String(name).toLowerCase();
  if (!isPlainName(lower)) {
    throw new TypeError(`header ${JSON.stringify(name)}: no name that a plugin may write`);
  }
  if (LAWFUL.size < MAX_LAWFUL) LAWFUL.set(name, lower);
  return lower;
}

function lawfulValue(name: string, value: unknown): string {
  if (typeof value !== "string" || !isValue(value)) {
    throw new TypeError(
      `header ${JSON.stringify(name)}: its value has a character that no header has`,
    );
  }
  return value;
}
