/**
 * The runtime that goes into the executable listens to variables of its own, and some of them hand the
 * process to the party that sets them before our first line: an interpreter, a module that is loaded
 * first, a debugger, other bodies for functions, files that are written. With a file capability on the
 * executable every user would have that capability.
 *
 * {@link deafened} makes these names ones that no environment can hold: a byte of each becomes NUL, at
 * which every name ends. The other variables that the runtime reads were tried and do none of this.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Every name that begins like this. */
const NAMES = ["BUN_BE_BUN", "BUN_OPTIONS", "BUN_INSPECT", "BUN_BYTECODE_"];

/**
 * `BUN_JSC_x=...` sets any option of the engine (`functionOverrides`, files it writes). The prefix is
 * compared in code, so the options lose their names; one that is unknown ends the start.
 */
const ENGINE_OPTION = /\0JSC_[a-z]\w*(?=\0)/g;
const BEFORE_OPTION = "\0JSC_".length;
/** There are 640 in Bun 1.4.5: a handful would mean that they are kept in another way. */
const ENGINE_OPTIONS_AT_LEAST = 500;

/** The same runtime, which these variables cannot reach; throws where a name is not found in it. */
export function deafened(runtime: Uint8Array): Uint8Array {
  const bytes = Buffer.from(runtime);
  for (const name of NAMES) {
    let found = 0;
    for (let at = bytes.indexOf(name); at >= 0; at = bytes.indexOf(name, at + 1)) {
      bytes[at] = 0;
      found++;
    }
    if (found === 0) throw missing(name);
  }
  let options = 0;
  for (const { index } of bytes.toString("latin1").matchAll(ENGINE_OPTION)) {
    bytes[index + BEFORE_OPTION] = 0;
    options++;
  }
  if (options < ENGINE_OPTIONS_AT_LEAST) throw missing("the options of BUN_JSC_");
  return bytes;
}

const WAIT_MS = 20_000;

/** The first of the variables that `executable` listens to; each is tried on it, as it would show. */
export function firstHeeded(executable: string): string | undefined {
  const directory = mkdtempSync(join(tmpdir(), "postern-variables-"));
  const module = join(directory, "heeded.js");
  const file = join(directory, "written");
  writeFileSync(module, 'console.log("heeded");\n');
  try {
    return [
      ["BUN_BE_BUN", "1", module],
      ["BUN_OPTIONS", `--preload=${module}`, "version"],
      ["BUN_INSPECT", "127.0.0.1:0/postern?wait=1", "version"],
      ["BUN_BYTECODE_ORDER_OUT", file, "version"],
      ["BUN_BYTECODE_DIGEST_OUT", file, "version"],
      ["BUN_JSC_functionOverrides", module, "version"],
    ].find(([name = "", value = "", argument = ""]) => {
      const { stdout, stderr } = spawnSync(executable, [argument], {
        env: { [name]: value },
        encoding: "utf8",
        timeout: WAIT_MS,
      });
      const refusal = name.startsWith("BUN_JSC_")
        ? "error: invalid JSC environment variable"
        : `postern: Cannot start with ${name} `;
      return stdout !== "" || !stderr.startsWith(refusal) || existsSync(file);
    })?.[0];
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function missing(name: string): Error {
  return new Error(
    `Cannot make the runtime deaf to ${name}: not found in it; see how this version reads it`,
  );
}
