/** Header fields as plugins see them: an immutable list. A change makes a new list. @module */

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
  /** Immutable. */
  readonly fields: Fields;
  /** Names that plugins set or removed, in lower case. */
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

/** The changed fields; throws a TypeError that names an invalid field. */
export function fieldsWith(fields: Fields, change: Headers | HeaderChange | undefined): Fields {
  if (change === undefined) return fields;
  if (change instanceof HeaderList) return change.fields;
  if (Symbol.iterator in change) throw new TypeError("headers: of another message's making");
  return changeFields(fields, change);
}

export type OwnNames = readonly string[] | undefined;

/** {@link HeaderList.ownNames} after the change. */
export function ownNamesWith(
  ownNames: OwnNames,
  change: Headers | HeaderChange | undefined,
): OwnNames {
  if (change === undefined) return ownNames;
  if (change instanceof HeaderList) return change.ownNames;
  if (Symbol.iterator in change) return ownNames;
  let own = ownNames;
  const add = (name: string) => {
    const lower = checkedName(name);
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
    const lower = checkedName(name);
    if (hasAlias(fields, lower)) removeAliases(changed ??= fields.slice(), lower);
  }
  if (remove) {
    changed ??= fields.slice();
    for (const name of remove) {
      const lower = checkedName(name);
      removeField(changed, lower);
      removeAliases(changed, lower);
    }
  }
  for (const name in set) {
    const lower = checkedName(name);
    const value = checkedValue(name, set[name]);
    // `concat` copies once; a copy and a push would grow the array after copying it.
    if (changed) setField(changed, lower, value);
    else if (fieldOf(fields, lower) === undefined) changed = fields.concat(lower, value, lower);
    else setField(changed = fields.slice(), lower, value);
  }
  for (const name in add) {
    const lower = checkedName(name);
    const value = checkedValue(name, add[name]);
    if (changed) addField(changed, lower, value);
    else changed = fields.concat(lower, value, lower);
  }
  return changed ?? fields;
}

/** Checked names and their lower case; a configuration has few. */
const CHECKED_NAMES = new Map<string, string>();
const MAX_CHECKED_NAMES = 1_024;

function checkedName(name: string): string {
  const known = CHECKED_NAMES.get(name);
  if (known !== undefined) return known;
  const lower = String(name).toLowerCase();
  if (!isPlainName(lower)) {
    throw new TypeError(`header ${JSON.stringify(name)}: no name that a plugin may write`);
  }
  if (CHECKED_NAMES.size < MAX_CHECKED_NAMES) CHECKED_NAMES.set(name, lower);
  return lower;
}

function checkedValue(name: string, value: unknown): string {
  if (typeof value !== "string" || !isValue(value)) {
    const header = `header ${JSON.stringify(name)}`;
    throw new TypeError(`${header}: its value has a character that no header has`);
  }
  return value;
}
