/** Tables and colours for people: aligned, within the width of the terminal, plain where piped. @module */

import process from "node:process";
import { printable } from "../../../base/mod.ts";

export type Tone = "good" | "warn" | "bad" | "dim" | "bold";

export interface Tinted {
  readonly text: string;
  readonly tone: Tone | undefined;
}

export type Cell = string | Tinted;

export interface Column {
  readonly title: string;
  readonly align?: "right";
  /** Characters that are kept where the terminal is too narrow; absent: the column is never cut. */
  readonly shrinksTo?: number;
  /** The end of the text tells more than its beginning. */
  readonly keepsEnd?: boolean;
}

export interface Screen {
  /** Columns of the terminal; `undefined`: not a terminal, lines may have any length. */
  readonly width: number | undefined;
  readonly color: boolean;
}

const CODES: Readonly<Record<Tone, string>> = {
  good: "32",
  warn: "33",
  bad: "31",
  dim: "2",
  bold: "1",
};
const GAP = "  ";

type Env = Readonly<Record<string, string | undefined>>;
interface Stream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
}

/** `noColor`: the flag. `NO_COLOR` counts with any value that is not empty, as no-color.org says. */
export function screenOf(
  { noColor }: { readonly noColor: boolean },
  stream: Stream = process.stdout,
  env: Env = process.env,
): Screen {
  const isTerminal = stream.isTTY === true;
  const refused = noColor || (env.NO_COLOR ?? "") !== "" || env.TERM === "dumb";
  return {
    width: isTerminal ? Math.max(stream.columns ?? 80, 20) : undefined,
    color: isTerminal && !refused,
  };
}

export function tint(text: string, tone: Tone | undefined): Tinted {
  return { text, tone };
}

export function paint(cell: Cell, { color }: Screen): string {
  const { text, tone } = typeof cell === "string" ? tint(cell, undefined) : cell;
  const shown = printable(text);
  return color && tone !== undefined ? `\x1b[${CODES[tone]}m${shown}\x1b[0m` : shown;
}

/** The title line and a line for each row. */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  screen: Screen,
): readonly string[] {
  const widths = columnWidths(columns, rows, screen.width);
  const head = columns.map(({ title }) => tint(title, "bold"));
  return [head, ...rows].map((row) => {
    const cells = columns.map(({ align, keepsEnd = false }, index) => {
      const cell = row[index] ?? "";
      const width = widths[index] ?? 0;
      const text = cut(textOf(cell), width, keepsEnd);
      const painted = paint(typeof cell === "string" ? text : { ...cell, text }, screen);
      const fill = " ".repeat(width - text.length);
      return align === "right" ? fill + painted : painted + fill;
    });
    return cells.join(GAP).trimEnd();
  });
}

/** Characters that a line of this table takes. */
export function tableWidth(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
): number {
  return sum(columnWidths(columns, rows, undefined)) + GAP.length * (columns.length - 1);
}

/** Whether the table fits the terminal, with its columns as narrow as they may be. */
export function tableFits(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  { width }: Screen,
): boolean {
  const widths = columnWidths(columns, rows, width);
  return width === undefined || sum(widths) + GAP.length * (columns.length - 1) <= width;
}

/** `text`, in lines of at most the terminal's width, each after `indent`. */
export function wrapped(text: string, indent: string, { width }: Screen): readonly string[] {
  const shown = printable(text);
  if (width === undefined) return [indent + shown];
  const room = Math.max(width - indent.length, 20);
  const lines: string[] = [];
  let line = "";
  for (let word of shown.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > room) {
      lines.push(line);
      line = "";
    }
    for (; line === "" && word.length > room; word = word.slice(room)) {
      lines.push(word.slice(0, room));
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].map((one) => indent + one);
}

function columnWidths(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  screenWidth: number | undefined,
): readonly number[] {
  const widths = columns.map(({ title }, index) =>
    Math.max(title.length, ...rows.map((row) => textOf(row[index] ?? "").length))
  );
  if (screenWidth === undefined) return widths;
  let excess = sum(widths) + GAP.length * (columns.length - 1) - screenWidth;
  // The widest gives way first, one character at a time, so that several end equally wide.
  while (excess > 0) {
    let widest = -1;
    for (const [index, { shrinksTo, title }] of columns.entries()) {
      const width = widths[index] ?? 0;
      if (shrinksTo === undefined || width <= Math.max(shrinksTo, title.length)) continue;
      if (widest < 0 || width > (widths[widest] ?? 0)) widest = index;
    }
    if (widest < 0) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
    excess--;
  }
  return widths;
}

function textOf(cell: Cell): string {
  return printable(typeof cell === "string" ? cell : cell.text);
}

function cut(text: string, width: number, keepsEnd: boolean): string {
  if (text.length <= width) return text;
  const room = Math.max(width - 1, 0);
  return keepsEnd ? `…${text.slice(text.length - room)}` : `${text.slice(0, room)}…`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
