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
  hasAlias,
  isPlainName,
  isValue,
  removeAliases,
  removeField,
  setField,
} from "../http/mod.ts";
import type { HeaderChange, Headers } from "./api.ts";

export class HeaderList implements Headers {
  /** Never changed. */
  readonly fields: Fields;
  /** Names (lower case) that were set or removed. */
  readonly ownNames: OwnNames;

  constructor(fields: Fields, ownNames?: OwnNames) {
    this.fields = fields;
    this.ownNames = ownNames;
  }

  get(name: string): string | undefined {
    return fieldOf(this.fields, name.toLowerCase());
  }

  all(name: string): readonly string[] {
    return fieldsOf(this.fields, name.toLowerCase());
  }

  with(change: HeaderChange): HeaderList {
    return new HeaderList(changeFields(this.fields, change), ownNamesWith(this.ownNames, change));
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

export type OwnNames = readonly string[] | undefined;

/** Those that are the proxy's own after the change. */
export function ownNamesWith(
  ownNames: OwnNames,
  change: Headers | HeaderChange | undefined,
): OwnNames {
  if (change === undefined) return ownNames;
  if (change instanceof HeaderList) return change.ownNames;
  if (Symbol.iterator in change) return ownNames;
  let own = ownNames;
  const add = (name: string) => {
    const lower = lawfulName(name);
    if (own === undefined) own = [lower];
    else if (!own.includes(lower)) own = [...own, lower];
  };
  for (const name of change.remove ?? []) add(name);
  for (const name in change.set) add(name);
  return own;
}

function changeFields(fields: Fields, { remove, set, add }: HeaderChange): Fields {
  let changed: Fields | undefined;
  for (const name in set) {
    const lower = lawfulName(name);
    if (hasAlias(fields, lower)) removeAliases(changed ??= fields.slice(), lower);
  }
  if (remove) {
    changed ??= fields.slice();
    for (const name of remove) {
      const lower = lawfulName(name);
      removeField(changed, lower);
      removeAliases(changed, lower);
    }
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
