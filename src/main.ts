/**
 * argv in, exit code out: 0 done, 1 failed, 2 usage or configuration error (nothing was started).
 *
 * @module
 */

import process from "node:process";
import { runCommandLine } from "./app/mod.ts";

process.exit(await runCommandLine(process.argv.slice(2), process.argv0));
