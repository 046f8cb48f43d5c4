/**
 * Writes the flag reference of `docs/command-line.md` from the tables that flags are read with.
 *
 *     deno task docs
 *
 * @module
 */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HELP_TOPICS } from "../src/app/command_line/args.ts";
import { helpText } from "../src/app/command_line/help.ts";

const PAGE = join(import.meta.dirname ?? ".", "..", "docs", "command-line.md");
const PLACE = /(?<=<!-- commands:.*-->\n\n).*?(?=<!-- end of commands -->)/s;

const sections = HELP_TOPICS.filter((topic) => topic !== "version").map((topic) => {
  const heading = topic === "" ? "" : `## postern ${topic}\n\n`;
  return `${heading}\`\`\`text\n${helpText(topic)}\`\`\`\n\n`;
});
// By a function: a dollar sign in the help is no reference.
writeFileSync(PAGE, readFileSync(PAGE, "utf8").replace(PLACE, () => sections.join("")));
