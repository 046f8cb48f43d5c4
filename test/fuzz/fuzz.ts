/**
 * A small mutation fuzzer, the same on both engines: takes inputs from a corpus, damages them in ways
 * drawn from a seed, and runs the target on each. A failure names seed and iteration, and that pair
 * alone repeats it. One file per target: `test/fuzz/<name>_fuzz.ts` exports `target`.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { readdirSync } from "node:fs";
import { messageOf, ProxyError, type Random, seededRandom } from "../../src/base/mod.ts";

export interface FuzzTarget {
  readonly name: string;
  /** Sound inputs to start from; at least one. */
  readonly corpus: readonly Uint8Array[];
  /** Texts worth inserting: keywords, separators. */
  readonly dictionary?: readonly string[];
  /** Inputs grow to this at most; default 8 KiB. */
  readonly limitBytes?: number;
  /** One run may take this long; default 1000. */
  readonly limitMs?: number;
  /** Returns if all is well, throws if not. A refusal that is right is well: see {@link refuses}. */
  run(input: Uint8Array, random: Random): void | Promise<void>;
}

interface FuzzOptions {
  readonly seed: number;
  /** Stops after so many inputs... */
  readonly iterations?: number;
  /** ...or after so long, whichever comes first. */
  readonly seconds?: number;
  /** Where to start: the iteration of a failure repeats it. */
  readonly from?: number;
}

interface FuzzReport {
  readonly target: string;
  readonly iterations: number;
  readonly elapsedMs: number;
}

/** Throws on the first input that breaks the target. */
export async function fuzz(target: FuzzTarget, options: FuzzOptions): Promise<FuzzReport> {
  const { seed, from = 0, iterations = Infinity, seconds = Infinity } = options;
  const startMs = performance.now();
  let iteration = from;
  for (; iteration < from + iterations; iteration++) {
    if (performance.now() - startMs > seconds * 1000) break;
    const random = seededRandom(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(iteration, 0x85ebca6b));
    const input = mutate(target, random);
    try {
      await runTimed(target, { input, seed: Math.floor(random() * 2 ** 32) });
    } catch (cause) {
      throw new Error(
        `fuzz target "${target.name}" failed: ${messageOf(cause)}\n` +
          `repeat: scripts/fuzz.ts -target ${target.name} -seed ${seed} -from ${iteration} -iterations 1\n` +
          `input (base64): ${Buffer.from(input).toString("base64")}`,
        { cause },
      );
    }
  }
  const elapsedMs = performance.now() - startMs;
  return { target: target.name, iterations: iteration - from, elapsedMs };
}

/**
 * Runs `attempt`; a ProxyError with one of `codes` is a right refusal and gives `undefined`. Anything
 * else that is thrown goes on.
 */
export function refuses<T>(codes: readonly string[], attempt: () => T): T | undefined {
  try {
    return attempt();
  } catch (error) {
    if (error instanceof ProxyError && codes.includes(error.code)) return undefined;
    throw error;
  }
}

/** Every target in this directory, by file name. */
export async function loadTargets(): Promise<FuzzTarget[]> {
  const directory = new URL("./", import.meta.url);
  const files = readdirSync(directory).filter((file) => file.endsWith("_fuzz.ts")).sort();
  const targets: FuzzTarget[] = [];
  for (const file of files) {
    const module: { readonly target?: FuzzTarget } = await import(new URL(file, directory).href);
    if (!module.target) throw new Error(`${file} does not export "target"`);
    targets.push(module.target);
  }
  return targets;
}

async function runTimed(
  target: FuzzTarget,
  { input, seed }: { readonly input: Uint8Array; readonly seed: number },
): Promise<void> {
  const limitMs = target.limitMs ?? 1000;
  // A busy machine makes one run slow; the input is at fault only when it is slow every time.
  let fastestMs = Infinity;
  for (let attempt = 0; attempt < 3 && fastestMs > limitMs; attempt++) {
    const startMs = performance.now();
    await target.run(Uint8Array.from(input), seededRandom(seed));
    fastestMs = Math.min(fastestMs, performance.now() - startMs);
  }
  if (fastestMs > limitMs) throw new Error(`took ${Math.round(fastestMs)} ms, limit ${limitMs} ms`);
}

const INTERESTING = [0, 1, 0x7f, 0x80, 0x81, 0x82, 0x84, 0xff, 0x30, 0x0a, 0x0d, 0x20];

/** Sometimes the sound input itself, mostly one with 1 to 6 damages. */
function mutate(target: FuzzTarget, random: Random): Uint8Array {
  const { corpus, limitBytes = 8192 } = target;
  const below = (limit: number) => Math.floor(random() * limit);
  const pick = <T>(list: readonly T[]): T | undefined => list[below(list.length)];
  let bytes = Array.from(pick(corpus) ?? []);
  const damages = random() < 0.02 ? 0 : 1 + below(6);
  for (let damage = 0; damage < damages; damage++) {
    const at = below(bytes.length + 1);
    const span = 1 + below(random() < 0.8 ? 8 : bytes.length + 1);
    switch (below(9)) {
      case 0:
        if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ 1 << below(8);
        break;
      case 1:
        if (at < bytes.length) bytes[at] = pick(INTERESTING) ?? 0;
        break;
      case 2:
        if (at < bytes.length) bytes[at] = below(256);
        break;
      case 3:
        bytes.splice(at, span);
        break;
      case 4:
        bytes.splice(at, 0, ...Array.from({ length: Math.min(span, 64) }, () => below(256)));
        break;
      case 5:
        bytes.splice(below(bytes.length + 1), 0, ...bytes.slice(at, at + span));
        break;
      case 6: {
        const other = pick(corpus) ?? new Uint8Array();
        const start = below(other.length + 1);
        bytes.splice(at, random() < 0.5 ? span : 0, ...other.subarray(start, start + span));
        break;
      }
      case 7:
        if (random() < 0.3) bytes = bytes.slice(0, at);
        break;
      case 8:
        bytes.splice(at, 0, ...new TextEncoder().encode(pick(target.dictionary ?? []) ?? ""));
        break;
    }
    if (bytes.length > limitBytes) bytes.length = limitBytes;
  }
  return Uint8Array.from(bytes);
}
