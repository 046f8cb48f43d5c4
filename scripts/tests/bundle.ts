/**
 * The program in a few files, for stories that start it often: the sources are read, stripped of types
 * and linked once for a whole run, and each start takes a third less.
 *
 * @module
 */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PACKED_NAME, packedTypes } from "../../src/app/commands/plugin/type_files.ts";
import { runBounded } from "./bounded.ts";
import { BUN, ROOT } from "./suites.ts";

const BUNDLE_TIMEOUT_MS = 60_000;

export interface Bundle extends Disposable {
  /** The file to start in place of `src/main.ts`, on either engine. */
  readonly main: string;
}

/** Files lie as they do in `src`: modules name each other by where they are. */
export async function bundle(): Promise<Bundle> {
  const directory = mkdtempSync(join(tmpdir(), "postern-bundle-"));
  const app = join(directory, "app", "workers");
  mkdirSync(app, { recursive: true });
  const { code, output } = await runBounded([
    ...[BUN, "build", "--target=node", "--format=esm", "--splitting"],
    ...[
      "--entry-naming",
      "[name].[ext]",
      `--outdir=${app}`,
      "src/main.ts",
      "src/app/workers/worker.ts",
    ],
  ], { cwd: ROOT, timeoutMs: BUNDLE_TIMEOUT_MS });
  const remove = () => rmSync(directory, { recursive: true, force: true });
  if (code !== 0) {
    remove();
    throw new Error(`Cannot bundle src/main.ts: ${code}\n${output}`);
  }
  // There is no `node_modules` around it, as around the executable.
  writeFileSync(join(app, PACKED_NAME), packedTypes());
  writeFileSync(join(app, "worker.ts"), 'import "./worker.js";\n');
  const main = join(directory, "main.ts");
  writeFileSync(main, 'import "./app/workers/main.js";\n');
  return { main, [Symbol.dispose]: remove };
}
