/**
 * Runs the fuzz targets of `test/fuzz`, each for a while, and fails on the first finding.
 * `-seconds N` per target (default $POSTERN_FUZZ_SECONDS or 30), `-target NAME` for one alone,
 * `-seed N` (default: the time), `-from N -iterations N` to repeat a finding.
 *
 * @module
 */

import process from "node:process";
import { fuzz, loadTargets } from "../test/fuzz/fuzz.ts";

const FLAGS = ["seconds", "target", "seed", "from", "iterations"] as const;
type Flag = (typeof FLAGS)[number];

function readFlags(args: readonly string[]): ReadonlyMap<Flag, string> {
  const flags = new Map<Flag, string>();
  const rest = args.flatMap((arg) => arg.startsWith("-") ? arg.split(/=(.*)/s, 2) : [arg]);
  for (let index = 0; index < rest.length; index += 2) {
    const flag = FLAGS.find((name) => rest[index]?.replace(/^--?/, "") === name);
    const value = rest[index + 1];
    if (!flag || value === undefined) {
      console.error(`cannot read "${rest[index]}"; flags: ${FLAGS.map((name) => `-${name}`)}`);
      process.exit(2);
    }
    flags.set(flag, value);
  }
  return flags;
}

const flags = readFlags(process.argv.slice(2));
const number = (flag: Flag): number | undefined => {
  const text = flags.get(flag);
  if (text === undefined) return undefined;
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  console.error(`-${flag} wants a number, not "${text}"`);
  process.exit(2);
};
const wanted = flags.get("target");
const targets = (await loadTargets()).filter((target) => !wanted || target.name === wanted);
if (targets.length === 0) {
  console.error(`there is no fuzz target "${wanted}"`);
  process.exit(2);
}
const seed = number("seed") ?? Date.now() % 2 ** 31;
const seconds = number("seconds") ?? Number(process.env["POSTERN_FUZZ_SECONDS"] ?? 30);
let failed = 0;
for (const target of targets) {
  try {
    const report = await fuzz(target, {
      seed,
      seconds,
      from: number("from") ?? 0,
      iterations: number("iterations") ?? Infinity,
    });
    const perSecond = Math.round(report.iterations / (report.elapsedMs / 1000));
    console.log(`${target.name}: ${report.iterations} inputs, ${perSecond} a second, seed ${seed}`);
  } catch (error) {
    failed++;
    console.error(error instanceof Error ? error.message : error);
  }
}
console.log(`${targets.length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
