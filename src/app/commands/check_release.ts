/** `postern version -check`: compares this version with the published ones. @module */

import { readFile } from "node:fs/promises";
import process from "node:process";
import { messageOf, printable, ProxyError } from "../../base/mod.ts";
import { VERSION } from "../process/version.ts";

const TIMEOUT_MS = 10_000;
const LIMIT_BYTES = 65_536;
/** A newer version was published. */
const OLD = 1;

/** `from`: `SHA256SUMS` of a release, as a file or a URL. Prints the answer; 1 where there is a newer version. */
export async function checkRelease(from: string): Promise<number> {
  const text = await published(from);
  const { line, isOld } = comparison(text, { version: VERSION, from });
  process.stdout.write(`${printable(line)}\n`);
  return isOld ? OLD : 0;
}

export function comparison(
  sums: string,
  { version, from }: { readonly version: string; readonly from: string },
): { readonly line: string; readonly isOld: boolean } {
  const names = sums.matchAll(/^[0-9a-f]{64} [ *]postern-(\d+\.\d+\.\d+)-[a-z0-9-]+\.tar\.gz$/gm);
  const [newest] = Array.from(names, ([, name = ""]) => name).sort((a, b) => compare(b, a));
  if (newest === undefined) {
    throw new ProxyError(
      "usage",
      `Cannot check the version: "${from}" names no release; give the SHA256SUMS of one`,
    );
  }
  const isOld = compare(newest, version) > 0;
  const line = isOld
    ? `postern ${version}: ${newest} was published at ${from}`
    : `postern ${version} is the newest at ${from}`;
  return { line, isOld };
}

function compare(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(".").map(Number));
  for (const [index, number] of (left ?? []).entries()) {
    const other = right?.[index] ?? 0;
    if (number !== other) return number - other;
  }
  return 0;
}

async function published(from: string): Promise<string> {
  try {
    if (!/^https?:\/\//i.test(from)) {
      return (await readFile(from, "utf8")).slice(0, LIMIT_BYTES);
    }
    const response = await fetch(from, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!response.ok) throw new Error(`status ${response.status}`);
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > LIMIT_BYTES) throw new Error(`it is longer than ${LIMIT_BYTES} bytes`);
    }
    return text;
  } catch (error) {
    throw new ProxyError("usage", `Cannot check the version: ${from}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
