/** Finds the position of an error in a plugin's files, by the source map of the bundle. @module */

import { messageOf } from "../base/mod.ts";
import { withoutSecrets } from "./secrets.ts";

/** Source map 3, with the sources' texts. Without `mappings` each source is run as it is. */
interface CodeMap {
  readonly sources: readonly string[];
  readonly sourcesContent: readonly string[];
  readonly mappings: string;
}

export interface SourcePosition {
  readonly path: string;
  /** From 1. */
  readonly line: number;
  readonly column: number;
  readonly text: string;
  /** The plugin whose code has run; `undefined`: it is not known yet. */
  readonly plugin: string | undefined;
}

/** Column in the bundle, index of the source, line and column in the source; all from 0. */
type Segment = readonly [column: number, source: number, line: number, sourceColumn: number];

interface Known {
  readonly json: string;
  /** Index of the source, where each source is run as it is. */
  readonly index: number;
  /** The bundle with that source. */
  readonly bundle: string;
  map?: CodeMap;
  /** Segments by line of the bundle. */
  lines?: readonly (readonly Segment[])[];
}

/** Twice the number of plugins that may be configured, since the generation before serves on for a while. */
const MAX_KNOWN = 128;
const MAX_MESSAGE_CHARS = 250;
const MAX_LINE_CHARS = 120;
const MAX_STACK_CHARS = 32_768;
const MAX_FRAME_CHARS = 1_000;
const known = new Map<string, Known>();
/** Names of plugins, by bundle. */
const plugins = new Map<string, string>();

/**
 * `file`: the name of the bundle, or of source `index` of it, in stack traces; `json`: the source map,
 * `""` for none.
 */
export function rememberPlaces(
  file: string,
  json: string,
  { index = 0, bundle = file }: { readonly index?: number; readonly bundle?: string } = {},
): void {
  known.delete(file);
  if (json !== "") keep(known, file, { json, index, bundle });
}

/** Called once the code of the bundle has told the name of its plugin. */
export function rememberPlugin(bundle: string, plugin: string): void {
  plugins.delete(bundle);
  keep(plugins, bundle, plugin);
}

function keep<T>(all: Map<string, T>, key: string, value: T): void {
  all.set(key, value);
  for (const oldest of all.keys()) {
    if (all.size <= MAX_KNOWN) break;
    all.delete(oldest);
  }
}

/**
 * The plugin that probably caused an error; `undefined`: no plugin from a file runs in this thread, or
 * several do and the stack names none.
 */
export function pluginOf(error: unknown): string | undefined {
  const named = placeOf(error)?.plugin;
  const all = new Set(plugins.values());
  return named ?? (all.size === 1 ? [...all][0] : undefined);
}

/** The message of an error; for a plugin from a file also the position and its line. */
export function faultOf(error: unknown): string {
  const message = withoutSecrets(messageOf(error));
  const place = placeOf(error);
  if (!place) return message;
  const { path, line, column, text } = place;
  const at = `${path}:${line}:${column}: ${shortened(text, MAX_LINE_CHARS)}`;
  return `${shortened(message, MAX_MESSAGE_CHARS)} (${at})`;
}

/** The innermost position in a plugin's files; `undefined`: the stack has none. */
export function placeOf(error: unknown): SourcePosition | undefined {
  if (known.size === 0 || !(error instanceof Error)) return undefined;
  // The stack begins with the message, which may hold text that a caller sent.
  for (const frame of String(error.stack).slice(0, MAX_STACK_CHARS).split("\n")) {
    if (frame.length > MAX_FRAME_CHARS) continue;
    const [, file = "", line = "", column = ""] =
      /^\s*at (?:async )?(?:.*?\()?([^()]+?)(?:, <anonymous>)?:(\d+):(\d+)\)?$/.exec(frame) ?? [];
    const place = placeIn(file, Number(line), Number(column));
    if (place) return place;
  }
  return undefined;
}

function placeIn(file: string, line: number, column: number): SourcePosition | undefined {
  const of = known.get(file);
  if (!of) return undefined;
  const map = of.map ??= JSON.parse(of.json) as CodeMap;
  const [source, sourceLine, sourceColumn] = originalOf(of, map, line, column) ?? [];
  if (source === undefined || sourceLine === undefined || sourceColumn === undefined) return;
  return {
    path: map.sources[source] ?? "",
    line: sourceLine + 1,
    column: sourceColumn + 1,
    text: (map.sourcesContent[source] ?? "").split("\n")[sourceLine]?.trim() ?? "",
    plugin: plugins.get(of.bundle),
  };
}

function originalOf(of: Known, { mappings }: CodeMap, line: number, column: number) {
  if (mappings === "") return [of.index, line - 1, column - 1] as const;
  of.lines ??= decoded(mappings);
  // `new Function` puts two lines before the text.
  const segments = of.lines[line - 3] ?? [];
  const segment = segments.findLast(([start]) => start <= column - 1) ?? segments[0];
  return segment && [segment[1], segment[2], segment[3]] as const;
}

/** Each field of a segment is the difference to the segment before; columns restart at 0 with each line. */
function decoded(mappings: string): Segment[][] {
  let source = 0, line = 0, sourceColumn = 0;
  return mappings.split(";").map((text) => {
    let column = 0;
    return text.split(",").flatMap((segment): Segment[] => {
      const [byColumn, bySource, byLine, bySourceColumn] = numbersOf(segment);
      column += byColumn ?? 0;
      if (bySourceColumn === undefined) return [];
      source += bySource ?? 0;
      line += byLine ?? 0;
      sourceColumn += bySourceColumn;
      return [[column, source, line, sourceColumn]];
    });
  });
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Base 64 VLQ: five value bits a digit, the sixth bit continues, the lowest bit of the number is its sign. */
function numbersOf(text: string): number[] {
  const numbers: number[] = [];
  let value = 0, shift = 0;
  for (const char of text) {
    const digit = DIGITS.indexOf(char);
    value += (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    numbers.push(value & 1 ? -(value >> 1) : value >> 1);
    value = shift = 0;
  }
  return numbers;
}

function shortened(text: string, chars: number): string {
  return text.length > chars ? `${text.slice(0, chars)}...` : text;
}
