/**
 * Changes of headers as Consul's entries have them: `{"Add": {}, "Set": {}, "Remove": []}`. What cannot be
 * done is left out and said by name, and the rest is done.
 *
 * @module
 */

import * as v from "valibot";
import { type HeaderChanges, headerFault, type HeaderText } from "../../http/mod.ts";
import { list, map, object, text } from "./schema.ts";

const ChangesJson = v.nullish(object({ Add: map(text), Set: map(text), Remove: list(text) }));

/** `undefined`: there is nothing to change. Warnings begin with `where`, as `RequestHeaders of ...`. */
export function readHeaderChanges(
  json: unknown,
  { where, warnings }: { readonly where: string; readonly warnings: string[] },
): HeaderChanges | undefined {
  const read = v.safeParse(ChangesJson, json);
  if (!read.success) {
    warnings.push(`${where} are no header changes; they are ignored`);
    return undefined;
  }
  if (!read.output) return undefined;
  const mayBe = (verb: string, name: string, value?: string): boolean => {
    const fault = headerFault(name, value);
    if (fault) warnings.push(`${where}: ${verb} ${JSON.stringify(name)} is left out: it ${fault}`);
    return !fault;
  };
  const texts = (verb: string, given: Readonly<Record<string, string>>): HeaderText[] =>
    Object.entries(given).filter(([name, value]) => mayBe(verb, name, value))
      .map(([name, value]) => [name.toLowerCase(), value]);
  const { Add, Set, Remove } = read.output;
  const changes = {
    remove: (Remove ?? []).filter((name) => mayBe("Remove", name))
      .map((name) => name.toLowerCase()),
    set: texts("Set", Set ?? {}),
    add: texts("Add", Add ?? {}),
  };
  return Object.values(changes).some(({ length }) => length > 0) ? changes : undefined;
}
