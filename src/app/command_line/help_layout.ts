/** The parts of a help page, and the page laid out for a width. `scripts/man.ts` uses the parts, too. @module */

import type { FlagGroup, FlagSpec } from "../flags/parse_flags.ts";

/** A page of `help.ts` is written for this width. */
const WIDTH = 100;
const COLUMN = 34;
const NARROW_INDENT = 8;

export type HelpPart =
  /** Without `Usage:`; one command line each. */
  | { readonly kind: "usage"; readonly lines: readonly string[] }
  | { readonly kind: "paragraph"; readonly text: string }
  | { readonly kind: "examples"; readonly rows: readonly HelpExample[] }
  /** The commands: name and purpose. */
  | { readonly kind: "table"; readonly title: string; readonly rows: readonly HelpRow[] }
  /** The place of the flags. */
  | { readonly kind: "flags" };

export interface HelpExample {
  readonly comment: string;
  /** On one line. */
  readonly command: string;
}

export type HelpRow = readonly [name: string, about: string];

/** Splits a page of `help.ts`: parts are separated by empty lines, and their first line tells them apart. */
export function helpParts(page: string): readonly HelpPart[] {
  return page.trimEnd().split("\n\n").map((block): HelpPart => {
    const [first = "", ...rest] = block.split("\n");
    if (block === "{flags}") return { kind: "flags" };
    if (first.startsWith("Usage: ")) {
      return { kind: "usage", lines: [first.slice(7), ...rest.map((line) => line.trim())] };
    }
    if (first === "Examples:") return { kind: "examples", rows: examplesOf(rest) };
    if (first.endsWith(":") && rest.length > 0 && rest.every((line) => line.startsWith("  "))) {
      const rows = rest.map((line): HelpRow => {
        const [, name = "", about = ""] = /^ {2}(.*?) {2,}(.*)$/.exec(line) ?? [];
        return [name, about];
      });
      return { kind: "table", title: first.slice(0, -1), rows };
    }
    return { kind: "paragraph", text: [first, ...rest].join(" ") };
  });
}

function examplesOf(lines: readonly string[]): readonly HelpExample[] {
  const text = lines.map((line) => line.trim()).join("\n").replace(/ \\\n/g, " ");
  const rows: HelpExample[] = [];
  let comment = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("# ")) comment = line.slice(2);
    else {
      rows.push({ comment, command: line });
      comment = "";
    }
  }
  return rows;
}

/** What follows a flag: its value, where it has one. */
export function flagHead({ name, value }: FlagSpec): string {
  return `-${name}${value === undefined ? "" : ` ${value}`}`;
}

/** The page, with lines of at most `width` columns but for a word or a command that is longer. */
export function laidOut(page: string, groups: readonly FlagGroup[], width: number): string {
  const flags = () => groups.map((group) => flagGroup(group, width)).join("\n\n");
  if (width >= WIDTH) return page.replace("{flags}", flags);
  const parts = helpParts(page).map((part): string => {
    switch (part.kind) {
      case "usage": {
        const lines = part.lines.flatMap((line) => wrap(line, width - 11));
        return lines.map((line, index) => {
          const isFirst = part.lines.some((whole) => whole.startsWith(line));
          return `${index === 0 ? "Usage: " : isFirst ? "       " : "           "}${line}`;
        }).join("\n");
      }
      case "paragraph":
        return wrap(part.text, width).join("\n");
      case "examples":
        return ["Examples:", ...part.rows.flatMap((row) => exampleLines(row, width))].join("\n");
      case "table":
        return [`${part.title}:`, ...part.rows.flatMap((row) => rowLines(row, width))].join("\n");
      case "flags":
        return flags();
    }
  });
  return `${parts.join("\n\n")}\n`;
}

function exampleLines({ comment, command }: HelpExample, width: number): readonly string[] {
  const said = comment === "" ? [] : wrap(comment, width - 4).map((line) => `  # ${line}`);
  return [...said, ...commandLines(command, width - 2).map((line) => `  ${line}`)];
}

/** Broken only before a flag, and so that it can be copied: a shell reads on after a backslash. */
export function commandLines(command: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const words of command.split(/ (?=-)/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + words.length <= width - 4) {
      lines[lines.length - 1] = `${last} ${words}`;
    } else lines.push(words);
  }
  return lines.map((line, index) =>
    `${index === 0 ? "" : "  "}${line}${index + 1 < lines.length ? " \\" : ""}`
  );
}

function rowLines([name, about]: HelpRow, width: number): readonly string[] {
  const column = 17;
  const lines = wrap(about, width - column);
  return lines.map((line, index) =>
    `${index === 0 ? `  ${name}`.padEnd(column) : " ".repeat(column)}${line}`
  );
}

function flagGroup({ title, flags }: FlagGroup, width: number): string {
  return `${title}:\n${flags.map((flag) => describe(flag, width)).join("\n")}`;
}

function describe(flag: FlagSpec, width: number): string {
  const head = `  ${flagHead(flag)}`;
  let about = flag.help;
  if (flag.env !== undefined) about += ` [$${flag.env}]`;
  if (flag.byDefault !== undefined) about += ` (default: ${flag.byDefault})`;
  const column = width >= WIDTH ? COLUMN : NARROW_INDENT;
  const lines = wrap(about, Math.min(width, WIDTH) - column);
  const indent = " ".repeat(column);
  if (column === NARROW_INDENT || head.length + 2 > column) {
    return [head, ...lines.map((line) => indent + line)].join("\n");
  }
  return lines.map((line, index) => (index === 0 ? head.padEnd(column) : indent) + line).join("\n");
}

/** Words are never broken. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}
