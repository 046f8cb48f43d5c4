/**
 * A whole file that a flag names.
 *
 * @module
 */

import { readFileSync, statSync } from "node:fs";
import { messageOf, ProxyError } from "../../base/mod.ts";

const LIMIT_BYTES = 1 << 20;

/** Throws `config_invalid`, naming the flag. */
export function readText(path: string, flag: string): string {
  try {
    if (statSync(path).size > LIMIT_BYTES) {
      throw new Error(`it is longer than ${LIMIT_BYTES} bytes`);
    }
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new ProxyError(
      "config_invalid",
      `Cannot read ${flag} ${JSON.stringify(path)}: ${messageOf(cause)}`,
      { cause },
    );
  }
}
