/**
 * Run by stories that measure: an echo on `HOST` until standard input ends. Prints its port.
 *
 * @module
 */

import process from "node:process";
import { startEcho } from "./echo.ts";

const echo = await startEcho({ host: process.argv[2] ?? "127.0.0.1" });
process.stdin.resume().on("end", () => process.exit(0));
process.stdout.write(`${echo.port}\n`);
