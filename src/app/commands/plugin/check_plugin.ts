/**
 * `postern plugin check`: checks a plugin's file as a proxy would, and its types.
 *
 * @module
 */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "../../../base/mod.ts";
import { faultOf, loadCode, whyNoImport } from "../../../plugin/mod.ts";
import { bundle, type Bundled } from "../../../source/mod.ts";
import { checkTypes, type TypeFault } from "./check_types.ts";
import { isTestFile, shown, testsBeside, type Write } from "./plugin_files.ts";

const MAX_FAULTS = 30;

/** Checks contract and types of plugins, and the types of the tests beside them; returns the exit code. */
export async function checkPlugins(paths: readonly string[], write: Write): Promise<number> {
  const files = [...new Set(paths.map((path) => resolve(path)))];
  const existing = files.filter((file) => existsSync(file));
  const tests = await Promise.all(existing.map(testsBeside));
  // One program for all files: the types of the language take most of the time.
  const types = await checkTypes([...existing, ...tests.flat()]);
  const checked = [];
  for (const file of files.filter((file) => !isTestFile(file))) {
    const isReported = existing.includes(file) && types.length > 0;
    // A file that cannot be parsed has no types, and cannot run.
    if (!types.some(({ isSyntax }) => isSyntax)) {
      checked.push(await checkContract(file, isReported));
    }
  }
  const faults = [...types.map(faultText), ...checked.flatMap(({ faults }) => faults)];
  for (const text of faults.slice(0, MAX_FAULTS)) write(`${text}\n`);
  if (faults.length > MAX_FAULTS) write(`... and ${faults.length - MAX_FAULTS} more\n`);
  if (faults.length > 0) {
    write(`\n${faults.length} ${faults.length === 1 ? "fault" : "faults"}\n`);
    return 1;
  }
  for (const file of files.filter(isTestFile)) write(`${shown(file)}: ok\n`);
  for (const { about } of checked) write(about);
  return 0;
}

interface Checked {
  readonly faults: readonly string[];
  /** `""` when there are faults. */
  readonly about: string;
}

/** `isReported`: a failure to bundle is among the faults of types already. */
async function checkContract(path: string, isReported: boolean): Promise<Checked> {
  let code: Bundled;
  try {
    code = await bundle(path);
  } catch (error) {
    return { faults: isReported ? [] : [messageOf(error)], about: "" };
  }
  const names = [...new Set(code.outside.map(({ name }) => name))].sort();
  const mayBeAllowed = (name: string) =>
    whyNoImport(name, []) !== undefined && whyNoImport(name, [nodeName(name)]) === undefined;
  const allow = [...new Set(names.filter(mayBeAllowed).map(nodeName))];
  const refused = code.outside.flatMap(({ name, by }) => {
    const why = whyNoImport(name, allow);
    return why ? [`${shown(by)} ${why}`] : [];
  });
  if (refused.length > 0) return { faults: [...new Set(refused)], about: "" };
  try {
    const { name, phase } = await loadCode({ ...code, path }, allow);
    return { faults: [], about: aboutText(path, { name, phase, allow, code }) };
  } catch (error) {
    return { faults: [`${shown(path)}: ${faultOf(error)}`], about: "" };
  }
}

function nodeName(name: string): string {
  return name.startsWith("node:") ? name : `node:${name}`;
}

function aboutText(path: string, { name, phase, allow, code }: {
  readonly name: string;
  readonly phase: string;
  readonly allow: readonly string[];
  readonly code: Bundled;
}): string {
  const needs = allow.map((name) => JSON.stringify(name)).join(", ");
  return `${shown(path)}: ok
    plugin ${name}, phase ${phase}
${
    needs && `    what it imports needs "allow": [${needs}] beside its "use"\n`
  }    "sha256": "${code.digest}" pins it as it is
`;
}

function faultText({ path, line, column, message, lines }: TypeFault): string {
  const at = path === undefined ? "" : `${shown(path)}:${line}:${column}: `;
  return [`${at}${message.split("\n").join("\n  ")}`, ...lines.map((text) => `    ${text}`)].join(
    "\n",
  );
}
