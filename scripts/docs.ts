/**
 * Writes the flag reference of `docs/command-line.md` from the tables that flags are read with, and
 * `docs/configuration-keys.md` from the table that keys of Consul are read with, `docs/codes.md` from
 * the table of error codes, and the tables of `docs/from-envoy.md`. The manual pages in
 * `dist/man` are for a look at them: `man -l dist/man/postern-proxy.1`.
 *
 *     deno task docs
 *
 * @module
 */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HELP_TOPICS } from "../src/app/command_line/args.ts";
import { helpText } from "../src/app/command_line/help.ts";
import { ERROR_CAUSES } from "../src/base/error_causes.ts";
import { ERROR_CODES, originOf } from "../src/base/mod.ts";
import { CONFIG_KEYS, type ConfigKey, KEY_PLACES, type KeyPlace } from "../src/consul/mod.ts";
import { FATES, fromEnvoyTables } from "./from_envoy.ts";
import { manPages } from "./man.ts";

const DOCS = join(import.meta.dirname ?? ".", "..", "docs");
const PAGE = join(DOCS, "command-line.md");
const KEYS_PAGE = join(DOCS, "configuration-keys.md");
const PLACE = /(?<=<!-- commands:.*-->\n\n).*?(?=<!-- end of commands -->)/s;

const sections = HELP_TOPICS.map((topic) => {
  const heading = topic === "" ? "" : `## postern ${topic}\n\n`;
  return `${heading}\`\`\`text\n${helpText(topic)}\`\`\`\n\n`;
});
// The replacement is a function: a dollar sign in the help is no reference.
writeFileSync(PAGE, readFileSync(PAGE, "utf8").replace(PLACE, () => sections.join("")));

const KEYS = /(?<=<!-- keys:.*-->\n\n).*?(?=<!-- end of keys -->)/s;

const HEADINGS: Readonly<Record<KeyPlace, string>> = {
  proxy: "Config of a sidecar, and of `proxy-defaults`",
  gateway: "Config of an ingress gateway",
  upstream: "Config of an upstream, and `UpstreamConfig` of `service-defaults`",
  registration: "Registration",
  "proxy-defaults": "`proxy-defaults`",
  "service-defaults": "`service-defaults`",
  mesh: "`mesh`",
};
function keyRow({ key, fate }: ConfigKey): string {
  const why = fate.kind === "followed" ? fate.note ?? "" : fate.reason;
  return `| \`${key}\` | ${FATES[fate.kind]} | ${why} |\n`;
}

const tables = KEY_PLACES.map((place) => {
  const rows = CONFIG_KEYS.filter((row) => row.place === place).map(keyRow).join("");
  return `## ${HEADINGS[place]}\n\n| key | Postern | |\n| --- | --- | --- |\n${rows}\n`;
});
writeFileSync(KEYS_PAGE, readFileSync(KEYS_PAGE, "utf8").replace(KEYS, () => tables.join("")));

const ENVOY_PAGE = join(DOCS, "from-envoy.md");
const TABLES = /(?<=<!-- tables:.*-->\n\n).*?(?=<!-- end of tables -->)/s;
const envoyPage = readFileSync(ENVOY_PAGE, "utf8");
writeFileSync(ENVOY_PAGE, envoyPage.replace(TABLES, () => `${fromEnvoyTables()}\n`));

const CODES_PAGE = join(DOCS, "codes.md");
const CODES = /(?<=<!-- codes:.*-->\n\n).*?(?=<!-- end of codes -->)/s;
const codes = ERROR_CODES.map((code) => {
  const { cause, cure } = ERROR_CAUSES[code];
  return `| \`${code}\` | ${originOf(code)} | ${cause} | ${cure} |\n`;
});
const codesTable = `| code | blamed on | cause | cure |\n| --- | --- | --- | --- |\n${
  codes.join("")
}\n`;
writeFileSync(CODES_PAGE, readFileSync(CODES_PAGE, "utf8").replace(CODES, () => codesTable));

const MAN = join(DOCS, "..", "dist", "man");
mkdirSync(MAN, { recursive: true });
for (const { file, text } of manPages(new Date())) writeFileSync(join(MAN, file), text);
