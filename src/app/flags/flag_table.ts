/**
 * Tables of flags as text, in the form that help shows. One row holds all there is to say about a flag:
 *
 *     Title of a group
 *       -name VALUE [$VARIABLE] {key.in.a.file} (default: TEXT)
 *           The sentence that help shows.
 *
 * A flag without a value is a switch; `...` after the value means that the flag may be repeated. The parts
 * in brackets are optional and in this order. A key may be followed by `|` and a second spelling, and by
 * the type of its value where that is not a string, or for a switch a boolean.
 *
 * @module
 */

export interface FlagSpec {
  readonly name: string;
  /** `switch`: on or off. `list`: may be repeated; for the other kinds the last value counts. */
  readonly kind: "text" | "switch" | "list";
  /** Name of the value in help: `ADDRESS`. */
  readonly value?: string;
  /** Environment variable that gives the value where the flag is not given. */
  readonly env?: string;
  /** Keys in a configuration file, with dots: `consul.tls.disabled`. The first one is shown in errors. */
  readonly keys: readonly string[];
  /** Type of the value in the file; absent: a boolean for a switch, a string for other kinds. */
  readonly inFile?: "number" | "duration" | "map";
  /** Shown by help; the readers of values use it, too. */
  readonly byDefault?: string;
  readonly help: string;
}

export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly FlagSpec[];
}

const NAME = /^-(\S+)(?: ([^\s[{(]\S*))?( \.\.\.)?(?=\s)/;
const PARTS =
  /^(?: \[\$(\w+)\])?(?: \{([\w.|]+)(?: (number|duration|map))?\})?(?: \(default: ([^)]+)\))?/;

export function readFlagTable(table: string): readonly FlagGroup[] {
  return table.trim().split(/\n(?=\S)/).map((group) => {
    const [title = "", ...flags] = group.split(/\n {2}(?=-)/);
    return { title, flags: flags.map(readRow) };
  });
}

function readRow(row: string): FlagSpec {
  const [head = "", name = "", value, repeated] = NAME.exec(row) ?? [];
  const rest = row.slice(head.length).replace(/\s+/g, " ");
  const [parts = "", env, keys, inFile, byDefault] = PARTS.exec(rest) ?? [];
  const kind = repeated ? "list" : value === undefined ? "switch" : "text";
  return {
    name,
    kind,
    ...(value !== undefined && { value }),
    ...(env !== undefined && { env }),
    keys: keys?.split("|") ?? [],
    ...(inFile !== undefined && { inFile: inFile as FlagSpec["inFile"] & string }),
    ...(byDefault !== undefined && { byDefault }),
    help: rest.slice(parts.length).trim(),
  };
}
