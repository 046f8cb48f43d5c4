/**
 * Enforces two rules of STYLE.md: no comment begins with a pointing word ("Of", "Whose", "Who", ...), and
 * no object literal spreads another literal. Exits 1 when a room has more than it is still allowed.
 *
 *     deno run --allow-read scripts/check_words.ts
 *
 * @module
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { blankNonCode, lineAt } from "./source_text.ts";

/** Faults that a room still has. A number may only fall; a room without one has none. */
const ALLOWED: Readonly<Record<string, number>> = {};

/** The first word of a comment or of its first sentence. */
const POINTING =
  /^[ \t]*(?:\/\*\*|\/\/|\/\*\*\n[ \t]*\*) (?:Of|Whose|Whom|To whom|Who|Whoever)\b/gm;
const LITERAL_SPREAD = /\.\.\.\{/g;

/** `path:line: the fault`, one for each. */
export function wordFaults(path: string, text: string): string[] {
  const found = (pattern: RegExp, within: string, fault: string) =>
    [...within.matchAll(pattern)].map(({ index }) => `${path}:${lineAt(text, index)}: ${fault}`);
  return [
    ...found(POINTING, text, "the comment begins with a pointing word"),
    ...found(LITERAL_SPREAD, blankNonCode(text), "a literal spreads a literal"),
  ];
}

/** `src/http`, `plugins`, `test`. */
function roomOf(path: string): string {
  return path.split("/").slice(0, path.startsWith("src/") ? 2 : 1).join("/");
}

if (import.meta.main) {
  const root = join(import.meta.dirname ?? ".", "..");
  const faults = new Map<string, string[]>();
  for (const directory of ["src", "plugins", "test", "scripts"]) {
    for (const name of readdirSync(join(root, directory), { recursive: true })) {
      const path = `${directory}/${name}`;
      if (!path.endsWith(".ts")) continue;
      const room = roomOf(path);
      const found = wordFaults(path, readFileSync(join(root, path), "utf8"));
      faults.set(room, [...faults.get(room) ?? [], ...found]);
    }
  }
  for (const [room, found] of faults) {
    const allowed = ALLOWED[room] ?? 0;
    if (found.length < allowed) {
      console.log(`notice ${room}: ${found.length} of ${allowed} are left`);
    }
    if (found.length <= allowed) continue;
    process.exitCode = 1;
    for (const fault of found) console.error(fault);
    console.error(`${room}: ${found.length} faults, ${allowed} are allowed`);
  }
}
